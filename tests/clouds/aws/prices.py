"""What machines cost here. All prices are made up, by formulas that a test can work out:

- on demand: 0.02 USD an hour for a vCPU, 0.003 for a GiB of memory, 0.50 for a GPU
- spot: a share of that between 30 and 70 %, another one every six hours, for each type and zone
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

STEP = timedelta(hours=6)
HISTORY = timedelta(days=90)
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_CENT_PARTS = Decimal("0.0001")
GIB_MONTH = {"VolumeUsage.gp3": "0.08", "SnapshotUsage": "0.05"}
ADDRESS_HOUR = "0.005"
EGRESS_GIB = "0.09"


def on_demand(instance_type: str) -> Decimal:
    """USD an hour."""
    told = INSTANCE_TYPES[instance_type]
    gpus = sum(gpu.get("Count", 0) for gpu in told.get("GpuInfo", {}).get("Gpus", ()))
    cpus = Decimal(told["VCpuInfo"]["DefaultVCpus"])
    gib = Decimal(told["MemoryInfo"]["SizeInMiB"]) / 1024
    price: Decimal = Decimal("0.02") * cpus + Decimal("0.003") * gib + Decimal("0.5") * gpus
    return price.quantize(_CENT_PARTS)


def spot(instance_type: str, zone: str, at: datetime) -> tuple[datetime, Decimal]:
    """Since when it is in force, and USD an hour."""
    step = (at - _EPOCH) // STEP
    told = hashlib.sha256(f"{instance_type}/{zone}/{step}".encode()).digest()
    share = Decimal(30 + told[0] % 41) / 100
    return _EPOCH + step * STEP, (on_demand(instance_type) * share).quantize(_CENT_PARTS)


def spot_history(
    instance_type: str, zone: str, start: datetime, end: datetime, now: datetime
) -> Iterator[tuple[datetime, Decimal]]:
    """The changes in [start, end] and the last one before, newest first, of 90 days at most."""
    at = min(end, now)
    first = max(start, now - HISTORY)
    while True:
        since, price = spot(instance_type, zone, at)
        yield since, price
        if since <= first:
            return
        at = since - timedelta(microseconds=1)


def cost(instance_type: str, zone: str, market: str, start: datetime, end: datetime) -> Decimal:
    """Of a run, unrounded."""
    if market != "spot":
        return on_demand(instance_type) * _hours(start, end)
    total, at = Decimal(0), start
    while at < end:
        since, price = spot(instance_type, zone, at)
        until = min(end, since + STEP)
        total += price * _hours(at, until)
        at = until
    return total


def _hours(start: datetime, end: datetime) -> Decimal:
    return Decimal((end - start) // timedelta(microseconds=1)) / Decimal(3_600_000_000)


def products(
    service: str, filters: Mapping[str, str], types: Iterable[str]
) -> list[dict[str, Any]]:
    """The products of the Price List that match, in its own shape."""
    if service == "AmazonEC2" and "operatingSystem" in filters:
        return [_machine(name) for name in types]
    if service == "AmazonEC2":
        usage = "VolumeUsage.gp3" if "volumeApiName" in filters else "SnapshotUsage"
        return [_product("GB-Mo", GIB_MONTH[usage], usagetype=usage)]
    if service == "AmazonVPC":
        return [_product("Hrs", ADDRESS_HOUR, usagetype="PublicIPv4:InUseAddress")]
    if service == "AWSDataTransfer":
        return [_product("GB", EGRESS_GIB, usagetype="DataTransfer-Out-Bytes")]
    return []


def _machine(name: str) -> dict[str, Any]:
    return _product("Hrs", str(on_demand(name)), instanceType=name, marketoption="OnDemand")


def _product(unit: str, price: str, **attributes: str) -> dict[str, Any]:
    dimension = {"unit": unit, "beginRange": "0", "pricePerUnit": {"USD": price}}
    term = {"priceDimensions": {"d": dimension}, "effectiveDate": "2020-01-01T00:00:00Z"}
    return {"product": {"attributes": attributes}, "terms": {"OnDemand": {"t": term}}}
