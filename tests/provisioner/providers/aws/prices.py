"""AWS's answers about prices and quotas, which moto does not give: made up, in the real shapes."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal

from tests.provisioner.providers.aws.cloud import XML, Answer, Form, as_json


def product(
    unit: str, *steps: tuple[float, str], effective: str = "2026-11-01T00:00:00Z", **told: str
) -> str:
    """A product of the Price List, its price by where each step of usage begins."""
    dimensions = {
        f"step{number}": {
            "unit": unit,
            "beginRange": f"{begin:g}",
            "pricePerUnit": {"USD": price},
        }
        for number, (begin, price) in enumerate(steps)
    }
    term = {"priceDimensions": dimensions, "effectiveDate": effective}
    return json.dumps({"product": {"attributes": told}, "terms": {"OnDemand": {"a.b": term}}})


def paged(form: Form, pages: list[list[str]]) -> Answer:
    number = int(form.get("NextToken") or 0)
    more = {"NextToken": str(number + 1)} if number + 1 < len(pages) else {}
    return as_json({"FormatVersion": "aws_v1", "PriceList": pages[number], **more})


def filters(form: Form) -> dict[str, str]:
    return {one["Field"]: one["Value"] for one in form["Filters"]}


def spot_history(
    rows: list[tuple[datetime, str, str, Decimal]], form: Form, page: int = 2
) -> Answer:
    """Pages of a spot market's history as EC2 tells it: newest first, one older row included.

    A row is when, type, zone, price.
    """
    start = datetime.fromisoformat(form["StartTime"])
    end = datetime.fromisoformat(form["EndTime"])
    kept = [row for row in rows if row[0] <= end and _asked(row, form)]
    before: dict[tuple[str, str], datetime] = {}
    for at, name, zone, _ in kept:
        if at <= start:
            before[name, zone] = max(at, before.get((name, zone), at))
    kept = [row for row in kept if row[0] > start or row[0] == before[row[1], row[2]]]
    kept.sort(key=lambda row: row[0], reverse=True)
    first = int(form.get("NextToken") or 0)
    token = f"<nextToken>{first + page}</nextToken>" if first + page < len(kept) else ""
    items = "".join(
        f"<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX"
        f"</productDescription><spotPrice>{price}</spotPrice><timestamp>{at:%Y-%m-%dT%H:%M:%S}.000Z"
        f"</timestamp><availabilityZone>{zone}</availabilityZone></item>"
        for at, name, zone, price in kept[first : first + page]
    )
    body = (
        '<DescribeSpotPriceHistoryResponse xmlns="x"><requestId>r</requestId>'
        f"<spotPriceHistorySet>{items}</spotPriceHistorySet>{token}"
        "</DescribeSpotPriceHistoryResponse>"
    )
    return 200, XML, body.encode()


def _asked(row: tuple[datetime, str, str, Decimal], form: Form) -> bool:
    types = [value for name, value in form.items() if name.startswith("InstanceType.")]
    return (not types or row[1] in types) and form.get("AvailabilityZone", row[2]) == row[2]


def quotas(form: Form, limits: dict[str, float], page: int = 2) -> Answer:
    first = int(form.get("NextToken") or 0)
    told = [
        {"QuotaCode": code, "QuotaName": f"Quota {code}", "Value": value}
        for code, value in limits.items()
    ]
    more = {"NextToken": str(first + page)} if first + page < len(told) else {}
    return as_json({"Quotas": told[first : first + page], **more})
