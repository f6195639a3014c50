"""One table a source: replaced as a whole, compared with the one before, asked by name."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from policies.world import Needs, Offer, Resources
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns
from tests.provisioner.world import ON_DEMAND, SPOT, START, offer

ANY = Needs(Resources(1, 1))


def elsewhere(price: str, zone: str = "a", provider: str = "else") -> Offer:
    return offer(zone, ON_DEMAND, price, provider=provider)


def test_what_changed_since_the_source_was_read_last() -> None:
    catalogue = Catalogue()
    before = [offer("a", SPOT, "0.10"), offer("b", SPOT, "0.10"), offer("c", SPOT, "0.10")]
    catalogue.update("fake", before)
    assert catalogue.stocks()[0].diff.added == 3
    catalogue.update("fake", [before[0], offer("b", SPOT, "0.12"), offer("d", SPOT, "0.10")])
    (stock,) = catalogue.stocks()
    assert (stock.diff.added, stock.diff.removed, stock.diff.repriced) == (1, 1, 1)
    assert stock.diff.examples == (
        "+ fake/r/d/small/spot",
        "- fake/r/c/small/spot",
        "~ fake/r/b/small/spot 0.1 -> 0.12",
    )
    catalogue.update("fake", [])
    assert catalogue.stocks()[0].diff.removed == 3
    assert catalogue.providers() == ()


def test_what_is_remembered_of_the_market_ends_with_a_change_of_what_can_be_bought() -> None:
    catalogue = Catalogue()
    catalogue.update("fake", [offer("a", SPOT, "0.10")])
    version = catalogue.version
    catalogue.update("fake", [offer("a", SPOT, "0.10")])
    catalogue.update_columns("list", Columns.of([elsewhere("0.01")]))
    assert catalogue.version == version
    catalogue.update("fake", [offer("a", SPOT, "0.11")])
    assert catalogue.version > version


def test_a_reader_sees_the_offers_of_one_moment() -> None:
    """A thousand offers at one price, then at another: never some of each."""
    catalogue = Catalogue()
    priced = [[offer(f"z{n}", SPOT, price) for n in range(1000)] for price in ("0.10", "0.20")]
    catalogue.update("fake", priced[0])
    done = threading.Event()

    def write() -> None:
        for turn in range(1, 30):
            catalogue.update("fake", priced[turn % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        prices = {one.price_per_hour for one in catalogue.fitting(ANY)}
        assert len(prices) == 1
        seen |= prices
    writer.join()
    assert seen == {Decimal("0.10"), Decimal("0.20")}


def test_a_source_that_is_gone_is_forgotten() -> None:
    catalogue = Catalogue()
    catalogue.update_columns("list", Columns.of([elsewhere("0.01")]))
    catalogue.drop("list")
    assert catalogue.stocks() == ()
    catalogue.drop("list")


def test_how_long_a_sources_word_is_good_is_its_own_affair() -> None:
    catalogue = Catalogue()
    catalogue.update("fake", [offer("a")], START)
    catalogue.update_columns("list", Columns.of([elsewhere("1")]), START, timedelta(days=30))
    catalogue.update_columns("undated", Columns.of([elsewhere("1")]))
    day = START + timedelta(days=1)
    for now, stale in (
        (day, set()),
        (day + timedelta(seconds=1), {"fake"}),
        (START + timedelta(days=31), {"fake", "list"}),
    ):
        assert {stock.source for stock in catalogue.stocks() if stock.is_stale(now)} == stale


def test_the_price_that_another_source_tells() -> None:
    catalogue = Catalogue()
    listed = [elsewhere("0.30", "a"), elsewhere("0.20", "b"), elsewhere("0.10", provider="other")]
    catalogue.update_columns("list", Columns.of(listed), START)
    catalogue.update("else", [elsewhere("0.05")])
    found = catalogue.price_elsewhere("else", "r", "small", ON_DEMAND)
    assert found is not None
    assert (found.price, found.currency, found.at) == (Decimal("0.2"), "USD", START)
    for asked in (
        ("else", "r", "small", SPOT),
        ("else", "r", "large", ON_DEMAND),
        ("else", "s", "small", ON_DEMAND),
        ("none", "r", "small", ON_DEMAND),
    ):
        assert catalogue.price_elsewhere(*asked) is None


@pytest.mark.parametrize("region", ["r", "s"])
def test_the_same_machine_is_in_the_same_region_too(region: str) -> None:
    """Zones of two regions may have one name."""
    catalogue = Catalogue()
    there = [
        replace(offer("a", ON_DEMAND), id=f"fake/{name}/a/small/on-demand", region=name)
        for name in ("r", "s")
    ]
    catalogue.update("fake", there)
    spot = replace(offer("a", SPOT), id=f"fake/{region}/a/small/spot", region=region)
    found = catalogue.same(spot, ON_DEMAND)
    assert found is not None
    assert found.region == region
