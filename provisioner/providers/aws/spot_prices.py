"""What spot costs, now and over the last 90 days, as EC2 tells it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from provisioner.clock import Clock
from provisioner.providers.aws.cache import Cache
from provisioner.providers.aws.instance_types import InstanceTypes
from provisioner.providers.aws.session import Aws

KEPT_FOR = timedelta(minutes=5)
_MOST_NAMES = 100
_PRODUCT = "Linux/UNIX"


class SpotPrices:
    """The spot market of each region; prices in USD for an hour."""

    def __init__(self, aws: Aws, types: InstanceTypes, clock: Clock) -> None:
        self._aws = aws
        self._types = types
        self._clock = clock
        self._now = Cache(self._load, KEPT_FOR, clock)

    def now(self, region: str) -> Mapping[tuple[str, str], Decimal]:
        """The prices of now, by type and zone."""
        return self._now.get(region)

    def history(
        self, region: str, instance_type: str, zone: str, start: datetime, end: datetime
    ) -> list[tuple[datetime, Decimal]]:
        """The changes within [start, end) and the last one before, oldest first."""
        pages = self._aws.pages(
            "ec2",
            region,
            "describe_spot_price_history",
            ProductDescriptions=[_PRODUCT],
            InstanceTypes=[instance_type],
            AvailabilityZone=zone,
            StartTime=start,
            EndTime=end,
        )
        told = {
            row["Timestamp"].astimezone(UTC): Decimal(row["SpotPrice"])
            for page in pages
            for row in page["SpotPriceHistory"]
        }
        before = max((at for at in told if at <= start), default=start)
        return sorted((at, price) for at, price in told.items() if before <= at < end)

    def _load(self, region: str) -> dict[tuple[str, str], Decimal]:
        now, names = self._clock.now(), sorted(self._types.all(region))
        # All of a region's types are some 7,000 rows; a few of them are asked for by name.
        only = {"InstanceTypes": names} if len(names) <= _MOST_NAMES else {}
        pages = self._aws.pages(
            "ec2",
            region,
            "describe_spot_price_history",
            ProductDescriptions=[_PRODUCT],
            StartTime=now,
            EndTime=now,
            **only,
        )
        latest: dict[tuple[str, str], tuple[datetime, Decimal]] = {}
        for page in pages:
            for row in page["SpotPriceHistory"]:
                key = (row["InstanceType"], row["AvailabilityZone"])
                told = (row["Timestamp"], Decimal(row["SpotPrice"]))
                latest[key] = max(told, latest.get(key, told))
        return {key: price for key, (_, price) in latest.items() if price > 0}
