"""Searching the offers: what fits, in the order that the asker wants, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import islice

import numpy as np

from policies.placement import by_price
from policies.world import Offer, PurchaseMode
from provisioner.gpus import GPUS
from provisioner.offers.beside import Beside
from provisioner.offers.catalogue import Catalogue, Stock
from provisioner.offers.columns import Columns, Numbers
from provisioner.offers.names import check_known
from provisioner.offers.ordering import in_order
from provisioner.offers.query import OfferQuery
from provisioner.offers.table import Dropped
from provisioner.providers.contract import Rates

NOT_SOLD_HERE = "not_sold_here"
"""It fits, and no provider of this installation sells it."""


class Order(StrEnum):
    """What comes first. The price is that of the machine with what is wanted beside it."""

    PRICE = "price"
    PRICE_PER_GPU = "price-per-gpu"
    PRICE_PER_WORK = "price-per-work"


@dataclass(frozen=True, slots=True)
class Search:
    """A query, and how what it finds is ordered and priced."""

    query: OfferQuery = field(default_factory=OfferQuery)
    order: Order = Order.PRICE
    in_order_of_gpus: bool = False
    """The GPUs of the query are a list of wishes, the dearest to the heart first."""
    throughput: Mapping[str, float] = field(default_factory=dict)
    """Work an hour of one GPU by model, as measured; where it is not, peak TFLOP/s take its place,
    and then for all models."""
    beside: Beside = field(default_factory=Beside)
    everything: bool = False
    """Also what no provider of this installation sells."""

    @property
    def ranks_by_price(self) -> bool:
        """Whether the price of the machine alone says what comes first."""
        return self.order is Order.PRICE and not self.beside.wanted


@dataclass(frozen=True, slots=True)
class Found:
    """One offer that fits."""

    offer: Offer
    source: str
    at: datetime | None
    stale: bool
    buyable: bool
    arch: str | None
    price_per_gpu_hour: Decimal | None
    price_per_work: Decimal | None
    """Of a unit of the given throughput, or of a TFLOP/s for an hour; None where nobody knows."""
    beside_per_hour: Decimal | None
    """Disk, address and egress; None where their price is unknown."""
    total_per_hour: Decimal | None
    """The machine and what is wanted beside it; None where a part is unknown, or nothing wanted."""
    interruption_rate: float | None
    """Share of such machines that were taken back in the last month, at most."""


class Searcher:
    """Answers searches from the tables of a catalogue."""

    def __init__(
        self,
        catalogue: Catalogue,
        rates: Mapping[str, Rates],
        interruptions: Mapping[tuple[str, str, str], float],
        now: datetime,
    ) -> None:
        self._catalogue = catalogue
        self._rates = rates
        self._interruptions = interruptions
        self._now = now

    def find(self, search: Search, start: int = 0, stop: int | None = None) -> Iterator[Found]:
        """What fits, the best first, from the one at `start` to before the one at `stop`.

        Each is made only when it is asked for.

        Raises:
            InvalidError: a GPU, provider or region is known nowhere.
        """
        stocks = self._stocks(search)
        check_known(search.query, stocks, self._catalogue.stocks())
        return islice(self._in_order(stocks, search, start, stop), stop and stop - start)

    def left_out(self, search: Search) -> list[Dropped]:
        """Why other offers do not fit: how many by each part of the query, the most first.

        Raises:
            InvalidError: a GPU, provider or region is known nowhere.
        """
        every = self._catalogue.stocks()
        check_known(search.query, every, every)
        by_cause: dict[str, Dropped] = {}
        for stock in every:
            dropped: list[Dropped] = []
            if stock.buyable or search.everything:
                stock.table.select(search.query, dropped)
            elif len(fitting := stock.table.select(search.query)):
                cheapest = stock.table.offer(int(fitting[0]))
                dropped.append(Dropped(NOT_SOLD_HERE, len(fitting), cheapest))
            for one in dropped:
                known = by_cause.get(one.because)
                if known is not None:
                    cheapest = min(known.example, one.example, key=by_price)
                    one = Dropped(one.because, known.count + one.count, cheapest)
                by_cause[one.because] = one
        return sorted(by_cause.values(), key=lambda one: (-one.count, one.because))

    def _stocks(self, search: Search) -> list[Stock]:
        return [s for s in self._catalogue.stocks() if s.buyable or search.everything]

    def _in_order(
        self, stocks: Sequence[Stock], search: Search, start: int, stop: int | None
    ) -> Iterator[Found]:
        for rows in _selected(stocks, search):
            with_some = [each for each in zip(stocks, rows, strict=True) if len(each[1])]
            if with_some:
                yield from self._ranked(with_some, search, start, stop)
            start = max(0, start - sum(map(len, rows)))

    def _ranked(
        self,
        selected: Sequence[tuple[Stock, Numbers]],
        search: Search,
        start: int,
        stop: int | None,
    ) -> Iterator[Found]:
        if search.ranks_by_price:  # as each table's rows already do
            selected = [(stock, rows[:stop]) for stock, rows in selected]
            if len(selected) == 1:
                ((stock, rows),) = selected
                yield from (self._found(stock, int(row), search) for row in rows[start:])
                return
        tables = [stock.table.columns for stock, _ in selected]
        every = [rows for _, rows in selected]
        values = [self._values(t, r, search) for t, r in zip(tables, every, strict=True)]
        for table, row in in_order(tables, every, values, start):
            yield self._found(selected[table][0], row, search)

    def _values(self, columns: Columns, rows: Numbers, search: Search) -> Numbers:
        """What the rows are ordered by; NaN where it is unknown."""
        price: Numbers = columns.price[rows]
        if search.ranks_by_price:
            return price
        if search.order is Order.PRICE:
            return price + self._beside(columns, rows, search.beside)
        gpus = np.where(columns.gpus[rows] > 0, columns.gpus[rows], np.nan)
        if search.order is Order.PRICE_PER_GPU:
            return price / gpus
        models = columns.gpu_model
        work = np.array([_work(model, search.throughput) for model in models.words])
        value: Numbers = price / (gpus * work[models.codes[rows]])
        return value

    def _beside(self, columns: Columns, rows: Numbers, beside: Beside) -> Numbers:
        """What is wanted beside the machine costs an hour, at the provider of each row."""
        provider, currency = columns.provider, columns.currency
        pairs = provider.codes[rows].astype(np.int64) * len(currency.words) + currency.codes[rows]
        different, which = np.unique(pairs, return_inverse=True)
        costs = []
        for pair in map(int, different):
            name, money = divmod(pair, len(currency.words))
            rates = self._rates.get(provider.words[name], Rates())
            cost = beside.per_hour(rates, currency.words[money])
            costs.append(np.nan if cost is None else float(cost))
        return np.array(costs, dtype=float)[which]

    def _found(self, stock: Stock, row: int, search: Search) -> Found:
        offer = stock.table.offer(row)
        has, price = offer.resources, offer.price_per_hour
        per_gpu = price / has.gpus if has.gpus else None
        work = _work(has.gpu_model or "", search.throughput)
        known = per_gpu is not None and work == work
        place = (offer.provider, offer.region, offer.instance_type)
        beside = None
        if search.beside.wanted:
            rates = self._rates.get(offer.provider, Rates())
            beside = search.beside.per_hour(rates, offer.currency)
        return Found(
            offer,
            stock.source,
            stock.at,
            stock.is_stale(self._now),
            stock.buyable,
            stock.table.columns.arch[row] or None,
            _short(per_gpu),
            _short(per_gpu / Decimal(str(work))) if per_gpu is not None and known else None,
            _short(beside),
            None if beside is None else _short(price + beside),
            self._interruptions.get(place) if offer.mode is PurchaseMode.SPOT else None,
        )


def _selected(stocks: Sequence[Stock], search: Search) -> Iterator[list[Numbers]]:
    """The rows of each stock that fit; for GPUs in the order of the wish, wish by wish."""
    query = search.query
    if not search.in_order_of_gpus or not query.gpus:
        yield [stock.table.select(query) for stock in stocks]
        return
    seen: list[Numbers] = [np.arange(0) for _ in stocks]
    for wish in query.gpus:
        rows = [stock.table.select(replace(query, gpus=(wish,))) for stock in stocks]
        rows = [some[~np.isin(some, old)] for some, old in zip(rows, seen, strict=True)]
        seen = [np.append(old, some) for old, some in zip(seen, rows, strict=True)]
        yield rows


def _short(amount: Decimal | None) -> Decimal | None:
    """To a trillionth, and without zeros at its end."""
    return None if amount is None else round(amount, 12).normalize()


def _work(model: str, throughput: Mapping[str, float]) -> float:
    """What one GPU of a model does in an hour; NaN where nobody knows."""
    if throughput:
        return throughput.get(model, float("nan"))
    gpu = GPUS.get(model)
    return float("nan") if gpu is None else gpu.tflops
