"""Whatever is asked of however many sources: the answer of the index is that of a plain scan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from math import isclose, isnan, nan
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.quantities import Range
from policies.world import Offer, PurchaseMode, Resources
from provisioner.errors import InvalidError
from provisioner.gpus import GPUS
from provisioner.offers.beside import Beside
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns, Words
from provisioner.offers.query import SOME, GpuWish, OfferQuery
from provisioner.offers.search import NOT_SOLD_HERE, Found, Order, Search, Searcher
from provisioner.providers.contract import PricePoint, Rates

NOW = datetime(2026, 3, 2, tzinfo=UTC)
RATES = {
    "one": Rates(volume_gib_month=PricePoint(NOW, Decimal("0.73"), "USD")),
    "two": Rates(volume_gib_month=PricePoint(NOW, Decimal("7.3"), "EUR")),
}
MODELS = ["L4", "A100", "A100-80GB", "X9"]
PLACES = ["r", "R-2", "r-2", "r2"]
KINDS = ["a.b", "a-1", "c"]
SPOT, ON_DEMAND = PurchaseMode.SPOT, PurchaseMode.ON_DEMAND


@dataclass(frozen=True)
class Row:
    """What a scan looks at."""

    offer: Offer
    arch: str
    source: str
    buyable: bool


def rows(luck: Random) -> list[Row]:
    """Offers of up to three sources: two providers, and a list that tells of both and a third."""
    made: dict[tuple[str, str], Row] = {}
    for _ in range(luck.randrange(25)):
        source = luck.choice(["one", "two", "list"])
        provider = luck.choice(["one", "two", "six"]) if source == "list" else source
        region, zone, kind = luck.choice(PLACES), luck.choice(PLACES), luck.choice(KINDS)
        mode = luck.choice([ON_DEMAND, SPOT])
        model = luck.choice([None, *MODELS])
        offer = Offer(
            id=f"{provider}/{region}/{zone}/{kind}/{mode}",
            provider=provider,
            region=region,
            zone=zone,
            instance_type=kind,
            mode=mode,
            resources=Resources(
                luck.choice([1.0, 2.0, 8.0]),
                luck.choice([0.5, 4.0, 64.0]),
                luck.randint(1, 4) if model else 0,
                model,
            ),
            price_per_hour=Decimal(luck.choice(["0.1", "0.3", "0.35", "1"])),
            currency=luck.choice(["USD", "USD", "EUR"]),
            can_stop=True,
        )
        arch = luck.choice(["", "x86_64", "arm64"]) if source == "list" else ""
        made[source, offer.id] = Row(offer, arch, source, source != "list")
    return list(made.values())


def search_for(luck: Random) -> Search:
    """Each part of a query is seldom asked for, so that most searches find something."""

    def seldom(*values: Any, otherwise: Any = None) -> Any:
        return luck.choice(values) if luck.random() < 0.15 else otherwise

    def span(*lows: int) -> Range | None:
        low = Decimal(luck.choice(lows))
        return seldom(Range(low, None), Range(low, low), Range(low, low + 6))

    query = OfferQuery(
        cpus=span(1, 2),
        memory_gib=span(0, 4),
        gpus=tuple(
            GpuWish(luck.choice(["L4", "a100", "A100*", "X9", None]), span(1, 2) or SOME)
            for _ in range(seldom(1, 2, 3, otherwise=luck.randrange(2)))
        ),
        gpu_memory_gib=span(24, 40),
        mode=seldom(SPOT, ON_DEMAND),
        providers=seldom(("one",), ("t*",), ("six", "two"), otherwise=()),
        regions=seldom(("r",), ("r*",), ("*-2", "r2"), otherwise=()),
        zones=seldom(("R-2",), ("*2",), otherwise=()),
        types=seldom(("a*",), ("c", "A.B"), otherwise=()),
        archs=seldom(("arm64",), ("x86*",), otherwise=()),
        max_price_per_hour=seldom(Decimal("0.1"), Decimal("0.3")),
    )
    return Search(
        query,
        luck.choice(list(Order)),
        luck.random() < 0.5,
        luck.choice([{}, {"L4": 2.0, "X9": 1.0}]),
        luck.choice([Beside(), Beside(), Beside(disk_gib=100.0), Beside(address=True)]),
        luck.random() < 0.7,
    )


def stocked(sold: list[Row]) -> Searcher:
    catalogue = Catalogue()
    for provider in ("one", "two"):
        catalogue.update(provider, [row.offer for row in sold if row.source == provider])
    listed = [row for row in sold if row.source == "list"]
    columns = Columns.of([row.offer for row in listed])
    arch = Words.of(row.arch for row in listed)
    told = Columns(**{name: getattr(columns, name) for name in columns.__slots__} | {"arch": arch})
    catalogue.update_columns("list", told)
    kept = {stock.source: {one.id for one in stock.table.offers()} for stock in catalogue.stocks()}
    sold[:] = [row for row in sold if row.offer.id in kept[row.source]]  # the others are dirty
    return Searcher(catalogue, RATES, {}, NOW)


def fits(query: OfferQuery, row: Row) -> bool:
    offer, has = row.offer, row.offer.resources
    size = GPUS[has.gpu_model].memory_gib if has.gpu_model in GPUS else nan
    return (
        (not query.gpus or any(grants(wish, has) for wish in query.gpus))
        and query.mode in (None, offer.mode)
        and named(query.providers, offer.provider)
        and named(query.regions, offer.region)
        and named(query.zones, offer.zone)
        and named(query.types, offer.instance_type)
        and named(query.archs, row.arch)
        and within(query.cpus, has.cpus)
        and within(query.memory_gib, has.memory_gib)
        and within(query.gpu_memory_gib, size)
        and (query.max_price_per_hour is None or offer.price_per_hour <= query.max_price_per_hour)
    )


def grants(wish: GpuWish, has: Resources) -> bool:
    return (
        has.gpu_model is not None
        and (wish.model is None or named((wish.model,), has.gpu_model))
        and within(wish.count, has.gpus)
    )


def named(wanted: tuple[str, ...], word: str) -> bool:
    return not wanted or any(fnmatchcase(word.casefold(), one.casefold()) for one in wanted)


def within(span: Range | None, number: float) -> bool:
    return span is None or (not isnan(number) and span.holds(Decimal(str(number))))  # type: ignore[arg-type]


def value(search: Search, offer: Offer) -> float:
    """What is lowest first; NaN where nobody knows."""
    price, has = float(offer.price_per_hour), offer.resources
    if search.order is Order.PRICE:
        cost = search.beside.per_hour(RATES.get(offer.provider, Rates()), offer.currency)
        return price if not search.beside.wanted else nan if cost is None else price + float(cost)
    if not has.gpus:
        return nan
    if search.order is Order.PRICE_PER_GPU:
        return price / has.gpus
    known = search.throughput or {name: gpu.tflops for name, gpu in GPUS.items()}
    return price / (has.gpus * known.get(has.gpu_model or "", nan))


def scan(sold: list[Row], search: Search) -> list[Row]:
    """By looking at each row."""

    def rank(row: Row) -> tuple[object, ...]:
        worth = value(search, row.offer)
        offer = row.offer
        wish = 0
        if search.in_order_of_gpus:
            granted = [grants(each, offer.resources) for each in search.query.gpus]
            wish = granted.index(True) if True in granted else 0
        unknown = isnan(worth)
        worth = 0 if unknown else worth
        return (wish, unknown, offer.currency, worth, offer.price_per_hour, offer.id, row.source)

    asked = [row for row in sold if row.buyable or search.everything]
    return sorted((row for row in asked if fits(search.query, row)), key=rank)


def key(found: Found) -> tuple[str, str]:
    return found.offer.id, found.source


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_any_search(seed: int) -> None:
    luck = Random(seed)
    sold, search = rows(luck), search_for(luck)
    searcher = stocked(sold)
    try:
        found = list(searcher.find(search))
    except InvalidError:
        return  # a name that nobody has; see test_search.py
    expected = [(row.offer.id, row.source) for row in scan(sold, search)]
    assert [key(one) for one in found] == expected
    start, length = luck.randrange(8), luck.randint(1, 8)
    part = searcher.find(search, start, start + length)
    assert [key(one) for one in part] == expected[start : start + length]
    for one in found if search.order is Order.PRICE and search.beside.wanted else ():
        worth = value(search, one.offer)
        told = nan if one.total_per_hour is None else float(one.total_per_hour)
        assert isclose(told, worth) or (isnan(told) and isnan(worth))


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_what_is_left_out_and_what_is_found_are_all(seed: int) -> None:
    luck = Random(seed)
    sold, search = rows(luck), search_for(luck)
    searcher = stocked(sold)
    try:
        found = list(searcher.find(search))
    except InvalidError:
        return
    left = searcher.left_out(search)
    elsewhere = [row for row in sold if not row.buyable and not search.everything]
    counted = {one.because: one.count for one in left}
    assert counted.pop(NOT_SOLD_HERE, 0) == sum(fits(search.query, row) for row in elsewhere)
    assert len(found) + sum(counted.values()) == len(sold) - len(elsewhere)
    for one in left:
        named_so = [row for row in sold if row.offer.id == one.example.id]
        fitting = one.because == NOT_SOLD_HERE
        assert any(fits(search.query, row) is fitting for row in named_so)
