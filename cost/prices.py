"""Price series of resources, and the spans of time during which one price holds.

A series is change points: each holds from its instant until the next. Before the first point, and
after a point without a price, the price is unknown: that is None, never 0. A price of 0 is a price
(machines that the team owns). Where prices come from is not known here.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from cost.errors import CostError
from cost.periods import midnights, utc

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PricePoint:
    """From `at` on, this is the price. A machine has one per hour, a volume one per GiB-month."""

    at: datetime
    price_per_hour: Decimal | None
    currency: str
    price_per_gib_month: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PricedSpan:
    """Half-open [start, end) with one price, within one UTC hour and one local day of each zone."""

    start: datetime
    end: datetime
    price: PricePoint | None
    """None while nothing is known of the price."""


@dataclass(frozen=True, slots=True)
class PriceBook:
    """The price series of all resources. Build one with `PriceBook.of`."""

    series: Mapping[str, tuple[PricePoint, ...]]

    @classmethod
    def of(cls, series: Mapping[str, Iterable[PricePoint]]) -> PriceBook:
        """Sorted series by resource id; the same point twice counts once.

        Raises:
            CostError: two different prices from the same instant on, or a negative price.
        """
        return cls({key: tuple(_ordered(key, points)) for key, points in series.items()})

    def price_at(self, resource_id: str, at: datetime) -> PricePoint | None:
        """The point in force at that instant, None before the first one."""
        points = self.series.get(resource_id, ())
        index = bisect_right(points, utc(at), key=lambda p: p.at)
        return points[index - 1] if index else None

    def split(
        self,
        resource_id: str,
        start: datetime,
        end: datetime,
        zones: Iterable[str] = (),
        *,
        hourly: bool = True,
    ) -> Iterator[PricedSpan]:
        """[start, end) cut at price changes, at UTC hours and at the zones' local midnights.

        `hourly` False leaves the hours out: fewer spans, which cost the same to the last digit.
        """
        start, end = utc(start), utc(end)
        cuts = {p.at for p in self.series.get(resource_id, ()) if start < p.at < end}
        if hourly:
            cuts.update(_hours(start, end))
        for tz in set(zones):
            cuts.update(midnights(start, end, tz))
        edges = [start, *sorted(cuts), end]
        for a, b in itertools.pairwise(edges):
            if a < b:
                yield PricedSpan(a, b, self.price_at(resource_id, a))


def _ordered(resource_id: str, points: Iterable[PricePoint]) -> Iterator[PricePoint]:
    last: PricePoint | None = None
    for point in sorted((_in_utc(p) for p in points), key=lambda p: p.at):
        _check(resource_id, point)
        if last is not None and last.at == point.at:
            if last != point:
                raise CostError(
                    f"{resource_id} has two prices from {point.at.isoformat()} on: "
                    f"{last.price_per_hour} and {point.price_per_hour}; keep one of them"
                )
            continue
        last = point
        yield point


def _in_utc(point: PricePoint) -> PricePoint:
    return PricePoint(
        utc(point.at), point.price_per_hour, point.currency, point.price_per_gib_month
    )


def _check(resource_id: str, point: PricePoint) -> None:
    for price in (point.price_per_hour, point.price_per_gib_month):
        if price is not None and (not price.is_finite() or price < 0):
            raise CostError(
                f"{resource_id} has the price {price} from {point.at.isoformat()} on; "
                "a price is a number of at least 0, or None when unknown"
            )


def _hours(start: datetime, end: datetime) -> Iterator[datetime]:
    at = start.replace(minute=0, second=0, microsecond=0) + _HOUR
    while at < end:
        yield at
        at += _HOUR
