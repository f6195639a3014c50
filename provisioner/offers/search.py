"""Searching the offers: what fits, in the order that the asker wants, and what it comes to."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum

import numpy as np

from policies.placement import by_price
from policies.world import Offer
from provisioner.errors import InvalidError
from provisioner.gpus import GPUS
from provisioner.offers.catalogue import Catalogue, Stock
from provisioner.offers.columns import Numbers
from provisioner.offers.query import OfferQuery
from provisioner.offers.table import Dropped
from provisioner.providers.contract import Rates

HOURS_A_MONTH = 730
STALE_AFTER = timedelta(hours=24)


class Order(StrEnum):
    """What comes first."""

    PRICE = "price"
    PRICE_PER_GPU = "price-per-gpu"
    PRICE_PER_WORK = "price-per-work"


@dataclass(frozen=True, slots=True)
class Beside:
    """What is wanted beside the machine, to be priced with it."""

    disk_gib: float = 0.0
    address: bool = False
    egress_gib_per_hour: float = 0.0

    @property
    def wanted(self) -> bool:
        return bool(self.disk_gib or self.address or self.egress_gib_per_hour)


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


@dataclass(frozen=True, slots=True)
class Found:
    """One offer that fits."""

    offer: Offer
    source: str
    at: datetime | None
    stale: bool
    buyable: bool
    price_per_gpu_hour: Decimal | None
    price_per_work: Decimal | None
    """Of a unit of the given throughput, or of a TFLOP/s for an hour; None where nobody knows."""
    beside_per_hour: Decimal | None
    """Disk, address and egress; None where their price is unknown."""
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

    def find(self, search: Search) -> Iterator[Found]:
        """What fits, the best first, each made only when it is asked for.

        Raises:
            InvalidError: a GPU, provider or region is known nowhere.
        """
        stocks = self._stocks(search)
        self._check_known(search.query, stocks)
        if search.order is Order.PRICE and not search.in_order_of_gpus:
            by_stock = (self._in_order_of_price(stock, search) for stock in stocks)
            return heapq.merge(*by_stock, key=lambda found: by_price(found.offer))
        return self._in_order_of_value(stocks, search)

    def left_out(self, search: Search) -> list[Dropped]:
        """Why other offers do not fit: how many by each part of the query, the most first."""
        by_cause: dict[str, Dropped] = {}
        for stock in self._stocks(search):
            dropped: list[Dropped] = []
            stock.table.select(search.query, dropped)
            for one in dropped:
                known = by_cause.get(one.because)
                if known is not None:
                    cheapest = min(known.example, one.example, key=by_price)
                    one = Dropped(one.because, known.count + one.count, cheapest)
                by_cause[one.because] = one
        return sorted(by_cause.values(), key=lambda one: (-one.count, one.because))

    def _stocks(self, search: Search) -> list[Stock]:
        return [s for s in self._catalogue.stocks() if s.buyable or search.everything]

    def _in_order_of_price(self, stock: Stock, search: Search) -> Iterator[Found]:
        rows = stock.table.select(search.query)
        return (self._found(stock, int(row), search) for row in rows)

    def _in_order_of_value(self, stocks: Sequence[Stock], search: Search) -> Iterator[Found]:
        wishes: list[OfferQuery] = [search.query]
        if search.in_order_of_gpus and search.query.gpus:
            wishes = [replace(search.query, gpus=(wish,)) for wish in search.query.gpus]
        for query in wishes:
            rows = [stock.table.select(query) for stock in stocks]
            keys = [self._values(s, r, search) for s, r in zip(stocks, rows, strict=True)]
            if not rows:
                return
            of_stock = np.repeat(np.arange(len(stocks)), [len(some) for some in rows])
            every, key = np.concatenate(rows), np.concatenate(keys)
            for at in np.argsort(key, kind="stable"):
                yield self._found(stocks[of_stock[at]], int(every[at]), search)

    def _values(self, stock: Stock, rows: Numbers, search: Search) -> Numbers:
        """What the rows are ordered by, NaN (which comes last) where it is unknown."""
        c = stock.table.columns
        price: Numbers = c.price[rows]
        if search.order is Order.PRICE:
            return price
        gpus = np.where(c.gpus[rows] > 0, c.gpus[rows], np.nan)
        if search.order is Order.PRICE_PER_GPU:
            return price / gpus
        work = np.array([_work(model, search.throughput) for model in c.gpu_model.words])
        value: Numbers = price / (gpus * work[c.gpu_model.codes[rows]])
        return value

    def _found(self, stock: Stock, row: int, search: Search) -> Found:
        offer = stock.table.offer(row)
        has = offer.resources
        per_gpu = offer.price_per_hour / has.gpus if has.gpus else None
        work = _work(has.gpu_model or "", search.throughput)
        known = per_gpu is not None and work == work
        place = (offer.provider, offer.region, offer.instance_type)
        return Found(
            offer,
            stock.source,
            stock.at,
            stock.at is not None and self._now - stock.at > STALE_AFTER,
            stock.buyable,
            per_gpu,
            per_gpu / Decimal(str(work)) if per_gpu is not None and known else None,
            beside_per_hour(search.beside, self._rates.get(offer.provider, Rates()), offer),
            self._interruptions.get(place) if offer.mode.value == "spot" else None,
        )

    def _check_known(self, query: OfferQuery, stocks: Sequence[Stock]) -> None:
        """A name that no offer has is a slip, and not a search that finds nothing."""
        for column, name, asked in (
            ("gpu_model", "GPU", [wish.model for wish in query.gpus if wish.model]),
            ("provider", "provider", query.providers),
            ("region", "region", query.regions),
        ):
            for word in asked:
                if "*" in word:
                    continue
                known = [stock.table.words(column) for stock in stocks]
                if any(word in words for words in known):
                    continue
                every = frozenset[str]().union(*known)
                if word.casefold() not in {text.casefold() for text in every}:
                    raise _unknown(name, word, every)


def beside_per_hour(beside: Beside, rates: Rates, offer: Offer) -> Decimal | None:
    """What is wanted beside a machine costs an hour; None for nothing, and for unknown prices."""
    if not beside.wanted:
        return None
    total = Decimal(0)
    for amount, rate in (
        (Decimal(str(beside.disk_gib)) / HOURS_A_MONTH, rates.volume_gib_month),
        (Decimal(int(beside.address)), rates.address_hour),
        (Decimal(str(beside.egress_gib_per_hour)), rates.egress_gib),
    ):
        if not amount:
            continue
        if rate is None or rate.currency != offer.currency:
            return None
        total += amount * rate.price
    return total


def _work(model: str, throughput: Mapping[str, float]) -> float:
    """What one GPU of a model does in an hour; NaN where nobody knows."""
    if throughput:
        return throughput.get(model, float("nan"))
    gpu = GPUS.get(model)
    return float("nan") if gpu is None else gpu.tflops


def _unknown(name: str, word: str, known: Iterable[str]) -> InvalidError:
    texts = sorted(known)
    by_fold = {text.casefold(): text for text in texts}
    close = [by_fold[fold] for fold in get_close_matches(word.casefold(), by_fold, n=3, cutoff=0.5)]
    if close:
        remedy = f"Did you mean {' or '.join(close)}?"
    else:
        shown = ", ".join(texts[:12]) or "none"
        remedy = f"Known are: {shown}{', ...' if len(texts) > 12 else ''}."
    return InvalidError(f"No offer has the {name} {word!r}.", remedy=remedy)
