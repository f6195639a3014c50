"""The prices of AWS's Price List: of machines on demand, and of what is billed beside them.

The list tells prices of now only, in USD, and is served from a few regions for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from provisioner.clock import Clock
from provisioner.providers.aws.cache import Cache
from provisioner.providers.aws.session import Aws
from provisioner.providers.contract import PricePoint, Rates

CURRENCY = "USD"
SERVED_FROM = "us-east-1"
KEPT_FOR = timedelta(days=1)
_MACHINES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
Product = Mapping[str, Any]


class PriceList:
    """On-demand prices and rates, by region."""

    def __init__(self, aws: Aws, clock: Clock) -> None:
        self._aws = aws
        self._machines = Cache(self._load_machines, KEPT_FOR, clock)
        self._rates = Cache(self._load_rates, KEPT_FOR, clock)

    def on_demand(self, region: str) -> Mapping[str, PricePoint]:
        """The price of an hour of each type; types without a price above 0 are not there."""
        return self._machines.get(region)

    def rates(self, region: str) -> Rates:
        return self._rates.get(region)

    def _load_machines(self, region: str) -> dict[str, PricePoint]:
        found: dict[str, PricePoint] = {}
        for product in self._products("AmazonEC2", regionCode=region, **_MACHINES):
            told = product["product"]["attributes"]
            if told.get("marketoption", "OnDemand") != "OnDemand":
                continue
            price = _price(product, "Hrs")
            name = told.get("instanceType")
            if price is not None and name:
                # Should a type come twice, the dearer one: nothing costs more than it says.
                found[name] = max(price, found.get(name, price), key=lambda point: point.price)
        return found

    def _load_rates(self, region: str) -> Rates:
        here = {"regionCode": region}
        return Rates(
            self._rate("VolumeUsage.gp3", "GB-Mo", "AmazonEC2", volumeApiName="gp3", **here),
            self._rate(
                "SnapshotUsage", "GB-Mo", "AmazonEC2", productFamily="Storage Snapshot", **here
            ),
            self._rate("InUseAddress", "Hrs", "AmazonVPC", group="VPCPublicIPv4Address", **here),
            self._rate(
                "DataTransfer-Out-Bytes",
                "GB",
                "AWSDataTransfer",
                transferType="AWS Outbound",
                fromRegionCode=region,
            ),
        )

    def _rate(self, usage: str, unit: str, service: str, **filters: str) -> PricePoint | None:
        """The price of a kind of usage; None when the list does not tell it."""
        for product in self._products(service, **filters):
            if product["product"]["attributes"].get("usagetype", usage).endswith(usage):
                return _price(product, unit)
        return None

    def _products(self, service: str, **filters: str) -> Iterator[Product]:
        pages = self._aws.pages(
            "pricing",
            SERVED_FROM,
            "get_products",
            ServiceCode=service,
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in filters.items()
            ],
        )
        for page in pages:
            for text in page["PriceList"]:
                yield json.loads(text)


def _price(product: Product, unit: str) -> PricePoint | None:
    """A product's price on demand, its first step that costs anything; None when it has none."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        steps = sorted(
            (float(step.get("beginRange", 0)), price)
            for step in term["priceDimensions"].values()
            if step["unit"].startswith(unit) and (price := _amount(step)) is not None
        )
        if steps:
            at = datetime.fromisoformat(term["effectiveDate"]).astimezone(UTC)
            return PricePoint(at, steps[0][1], CURRENCY)
    return None


def _amount(step: Mapping[str, Any]) -> Decimal | None:
    try:
        price = Decimal(step["pricePerUnit"][CURRENCY])
    except (KeyError, InvalidOperation):
        return None
    return price if price.is_finite() and price > 0 else None
