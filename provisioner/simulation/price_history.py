"""What the fake cloud has charged for its offers, and what that comes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial

from policies.world import Offer
from provisioner.providers.local.meter import Run, cost

_Points = Sequence[tuple[datetime, Decimal]]


class PriceHistory:
    """The prices of offers, each from some moment on."""

    def __init__(self, offers: Iterable[Offer], since: datetime) -> None:
        self._prices = {offer.id: [(since, offer.price_per_hour)] for offer in offers}

    def change(self, offer_id: str, price_per_hour: Decimal, at: datetime) -> None:
        self._prices[offer_id].append((at, price_per_hour))

    def points(self, offer_id: str, start: datetime, end: datetime) -> _Points:
        """The prices over [start, end), the first one at `start`."""
        history = [point for point in self._prices[offer_id] if point[0] < end]
        current = [point for point in history if point[0] <= start][-1]
        return ((start, current[1]), *(point for point in history if point[0] > start))

    def cost(self, runs: Sequence[tuple[str, Run]], start: datetime, end: datetime) -> Decimal:
        """What runs, each of an offer, cost inside [start, end): unrounded."""
        by_offer: dict[str, list[Run]] = {}
        for offer_id, run in runs:
            by_offer.setdefault(offer_id, []).append(run)
        parts = (
            cost(some, start, end, partial(self.points, offer_id))
            for offer_id, some in by_offer.items()
        )
        return sum(parts, Decimal(0))
