"""The offers of all sources, as last heard; a source that is silent keeps its last ones.

Each source has a table that is replaced as a whole, so that a reader sees the offers of one moment.
What a provider of this installation sells can be bought; what other sources tell (files, price
lists of clouds that are not set up) can be searched and compared, and is never placed.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from policies.placement import by_price
from policies.world import Needs, Offer, PurchaseMode, Resources
from provisioner.offers.columns import Columns
from provisioner.offers.diff import NOTHING, Diff, difference
from provisioner.offers.quarantine import Quarantined, sift
from provisioner.offers.query import OfferQuery
from provisioner.offers.table import Table
from provisioner.providers.contract import PricePoint

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
STALE_AFTER = timedelta(hours=24)
"""Of a source that does not say how long its word is good."""
_EMPTY = Table(Columns.of(()), ())


@dataclass(frozen=True, slots=True)
class Stock:
    """What one source told last, and when."""

    source: str
    table: Table
    buyable: bool
    at: datetime | None = None
    stale_after: timedelta = STALE_AFTER
    diff: Diff = NOTHING
    """Against what it told before."""
    quarantined: tuple[Quarantined, ...] = field(default=())
    """Of very many, the first."""
    bad: int = 0
    """How many rows are in quarantine."""

    def is_stale(self, now: datetime) -> bool:
        """Whether it is older than such a source's word should be; it is used all the same."""
        return self.at is not None and now - self.at > self.stale_after


class Catalogue:
    """Stocks by source: a provider's is called as the provider is."""

    def __init__(self) -> None:
        self._stocks: dict[str, Stock] = {}
        self._writing = threading.Lock()
        self.version = 0
        """Grows with each change of what can be bought."""

    def __len__(self) -> int:
        """How many offers can be bought."""
        return sum(len(stock.table) for stock in self._buyable())

    def update(
        self,
        provider: str,
        offers: Iterable[Offer],
        at: datetime | None = None,
        *,
        may_be_free: bool = False,
    ) -> None:
        """What a provider sells now."""
        made = tuple(offers)
        columns = Columns.of(made)
        clean, quarantined = sift(columns, provider, may_be_free=may_be_free)
        kept = [offer for offer, good in zip(made, clean, strict=True) if good]
        table = Table(columns.take(clean), kept)
        bad = len(columns) - len(table)
        self._replace(Stock(provider, table, True, at, quarantined=tuple(quarantined), bad=bad))

    def update_columns(
        self,
        source: str,
        columns: Columns,
        at: datetime | None = None,
        stale_after: timedelta = STALE_AFTER,
    ) -> None:
        """What another source tells; it is searched and compared, not bought."""
        clean, quarantined = sift(columns, source)
        table = Table(columns.take(clean))
        bad = len(columns) - len(table)
        self._replace(
            Stock(source, table, False, at, stale_after, quarantined=tuple(quarantined), bad=bad)
        )

    def drop(self, source: str) -> None:
        """Forget a source that is there no more."""
        with self._writing:
            self._stocks = {name: stock for name, stock in self._stocks.items() if name != source}
            self.version += 1

    def all(self) -> tuple[Offer, ...]:
        """All that can be bought, by provider and id."""
        found = (offer for stock in self._buyable() for offer in stock.table.offers())
        return tuple(sorted(found, key=lambda offer: (offer.provider, offer.id)))

    def fitting(self, needs: Needs) -> Iterator[Offer]:
        """What a request can buy, in the order of `policies.placement.by_price`."""
        query = OfferQuery.of(needs)
        return heapq.merge(
            *(_lazily(stock.table, query) for stock in self._buyable()), key=by_price
        )

    def same(self, offer: Offer, mode: PurchaseMode) -> Offer | None:
        """The same machine in the same zone, bought in another mode; None when it is not sold."""
        stock = self._stocks.get(offer.provider)
        return stock.table.same(offer, mode) if stock is not None and stock.buyable else None

    def providers(self) -> tuple[str, ...]:
        """Names of the providers that sell something."""
        return tuple(sorted(stock.source for stock in self._buyable() if len(stock.table)))

    def regions(self, provider: str | None = None) -> tuple[str, ...]:
        """Regions in which a provider, or any, sells something."""
        stocks = (s for s in self._buyable() if provider in (None, s.source))
        return tuple(sorted({region for s in stocks for region in s.table.words("region")}))

    def price_elsewhere(
        self, provider: str, region: str, instance_type: str, mode: PurchaseMode
    ) -> PricePoint | None:
        """What a source that is no provider says that a type costs; None when none does."""
        for stock in self.stocks():
            offer = stock.table.cheapest(provider, region, instance_type, mode)
            if offer is not None and not stock.buyable:
                return PricePoint(stock.at or _LONG_AGO, offer.price_per_hour, offer.currency)
        return None

    def shapes(self, provider: str) -> dict[str, Resources]:
        """What is known of a provider's instance types, from whatever source tells it."""
        found: dict[str, Resources] = {}
        for stock in self.stocks():
            found.update(stock.table.shapes(provider))
        return found

    def stocks(self) -> tuple[Stock, ...]:
        """Of all sources, by name."""
        return tuple(stock for _, stock in sorted(self._stocks.items()))

    def _buyable(self) -> list[Stock]:
        return [stock for stock in self.stocks() if stock.buyable]

    def _replace(self, stock: Stock) -> None:
        with self._writing:
            before = self._stocks.get(stock.source)
            was = before.table if before is not None else _EMPTY
            found = difference(was, stock.table)
            self._stocks = {**self._stocks, stock.source: replace(stock, diff=found)}
            if stock.buyable and found != NOTHING:
                self.version += 1


def _lazily(table: Table, query: OfferQuery) -> Iterator[Offer]:
    return (table.offer(int(row)) for row in table.select(query))
