"""The calls about prices and quotas, which moto does not have or makes a constant of."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from tests.clouds.aws import prices
from tests.clouds.aws.knobs import Knobs
from tests.clouds.aws.lives import Lives
from tests.clouds.aws.wire import Answer, Request, as_json, ec2

PRODUCTS_A_PAGE = 100
QUOTAS_A_PAGE = 3
DEFAULT_QUOTA = 1000.0
QUOTAS = {
    "L-1216C47A": ("on-demand", r"[acdhimrtz][0-9].*|im.*|is.*"),
    "L-DB2E81BA": ("on-demand", r"(g|vt)[0-9r].*"),
    "L-417A185B": ("on-demand", r"p[0-9].*"),
    "L-34B43A08": ("spot", r"[acdhimrtz][0-9].*|im.*|is.*"),
    "L-3819A6DF": ("spot", r"(g|vt)[0-9r].*"),
    "L-7212CCBC": ("spot", r"p[234].*"),
    "L-C4BD4855": ("spot", r"p5.*"),
}
"""Codes of Service Quotas, the market that they limit, and the types that count: standard ones,
G and VT, P."""
_USES = ("pending", "running", "stopping", "shutting-down")


def get_products(request: Request, knobs: Knobs) -> Answer:
    filters = {one["Field"]: one["Value"] for one in request.form.get("Filters", ())}
    types = filter(knobs.has_type, sorted(INSTANCE_TYPES))
    found = prices.products(request.form["ServiceCode"], filters, types)
    first = int(request.form.get("NextToken") or 0)
    until = first + PRODUCTS_A_PAGE
    more = {"NextToken": str(until)} if until < len(found) else {}
    return as_json({"PriceList": [json.dumps(one) for one in found[first:until]], **more})


def list_service_quotas(request: Request, lives: Lives) -> Answer:
    """The quotas of vCPUs, a few in a page."""
    told = [
        {
            "ServiceCode": "ec2",
            "QuotaCode": code,
            "QuotaName": f"All {market} vCPUs of {types}",
            "Value": limit(code, lives),
        }
        for code, (market, types) in QUOTAS.items()
    ]
    first = int(request.form.get("NextToken") or 0)
    until = first + QUOTAS_A_PAGE
    more = {"NextToken": str(until)} if until < len(told) else {}
    return as_json({"Quotas": told[first:until], **more})


def limit(code: str, lives: Lives) -> float:
    return lives.knobs.quota_vcpus.get(code, DEFAULT_QUOTA)


def exceeds_quota(region: str, instance_type: str, market: str, lives: Lives) -> bool:
    """Whether one more of it is more than the account may have; stopped ones do not count."""
    for code, (limited, types) in QUOTAS.items():
        if limited != market or not re.fullmatch(types, instance_type):
            continue
        used = sum(
            cpus(life.instance.instance_type)
            for life in lives
            if (life.region, life.market) == (region, market)
            and life.state in _USES
            and re.fullmatch(types, life.instance.instance_type)
        )
        return used + cpus(instance_type) > limit(code, lives)
    return False


def cpus(instance_type: str) -> float:
    return float(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


def spot_price_history(request: Request, now: datetime, most: int) -> Answer:
    """Newest first over all types and zones, in pages, the last change before the span included."""
    start = datetime.fromisoformat(request.form.get("StartTime", str(now - timedelta(days=90))))
    end = datetime.fromisoformat(request.form.get("EndTime", str(now)))
    names = set(request.values("InstanceType"))
    zone = request.form.get("AvailabilityZone")
    rows = [
        (at, name, place, price)
        for name, place in _sold(request.region)
        if (not names or name in names) and zone in (None, place)
        for at, price in prices.spot_history(name, place, start, end, now)
    ]
    rows.sort(key=lambda row: row[0], reverse=True)
    first = int(request.form.get("NextToken") or 0)
    until = first + min(most, int(request.form.get("MaxResults") or most))
    items = "".join(
        f"<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX"
        f"</productDescription><spotPrice>{price}</spotPrice>"
        f"<timestamp>{at:%Y-%m-%dT%H:%M:%S}.000Z</timestamp>"
        f"<availabilityZone>{place}</availabilityZone></item>"
        for at, name, place, price in rows[first:until]
    )
    token = f"<nextToken>{until}</nextToken>" if until < len(rows) else "<nextToken/>"
    return ec2(request, f"<spotPriceHistorySet>{items}</spotPriceHistorySet>{token}")


def _sold(region: str) -> list[tuple[str, str]]:
    """Types and zones that sell spot."""
    offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ())
    return [
        (one["InstanceType"], one["Location"])
        for one in offered
        if "spot" in INSTANCE_TYPES[one["InstanceType"]].get("SupportedUsageClasses", ())
    ]
