"""The offers as people ask for them: found, explained, with the sources and what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from provisioner.clock import Clock
from provisioner.offers.catalogue import Stock
from provisioner.offers.diff import NOTHING, Diff
from provisioner.offers.market import Market
from provisioner.offers.quarantine import Quarantined
from provisioner.offers.search import Found, Search, Searcher
from provisioner.offers.table import Dropped
from provisioner.people import Actor
from provisioner.store.paging import Page, position_cursor, position_of, slice_page


@dataclass(frozen=True, slots=True)
class SourceView:
    """Where offers come from, and how old they are."""

    name: str
    buyable: bool
    offers: int
    quarantined: int
    at: datetime | None
    stale: bool
    diff: Diff
    error: str | None


class Offers:
    """What could be bought."""

    def __init__(self, market: Market, clock: Clock) -> None:
        self._market = market
        self._clock = clock

    def search(self, actor: Actor, search: Search, limit: int, cursor: str | None) -> Page[Found]:
        """What fits, the best first.

        Raises:
            InvalidError: a name in it is known nowhere, or the cursor is none of ours.
        """
        start = position_of(cursor)
        found = list(self._searcher().find(search, start, start + limit + 1))
        more = position_cursor(start + limit) if len(found) > limit else None
        return Page(tuple(found[:limit]), more)

    def explain(self, actor: Actor, search: Search) -> list[Dropped]:
        """Why the others do not fit, with the cheapest of each kind."""
        return self._searcher().left_out(search)

    def sources(self, actor: Actor) -> tuple[SourceView, ...]:
        """Those that have told something, and those that should and have not."""
        now, errors = self._clock.now(), dict(self._market.source_errors)
        stocks = self._market.catalogue.stocks()
        told = [source_view(stock, now, errors.pop(stock.source, None)) for stock in stocks]
        silent = [
            SourceView(name, False, 0, 0, None, False, NOTHING, error)
            for name, error in errors.items()
        ]
        return tuple(sorted((*told, *silent), key=lambda source: source.name))

    def quarantined(self, actor: Actor, limit: int, cursor: str | None) -> Page[Quarantined]:
        stocks = self._market.catalogue.stocks()
        return slice_page([row for stock in stocks for row in stock.quarantined], limit, cursor)

    def _searcher(self) -> Searcher:
        market = self._market
        return Searcher(market.catalogue, market.rates, market.interruptions, self._clock.now())


def source_view(stock: Stock, now: datetime, error: str | None) -> SourceView:
    """A source as people see it; `error` is why it could not be read the last time."""
    return SourceView(
        stock.source,
        stock.buyable,
        len(stock.table),
        stock.bad,
        stock.at,
        stock.is_stale(now),
        stock.diff,
        error,
    )
