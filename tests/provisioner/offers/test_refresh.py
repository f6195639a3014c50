"""Sources are read in their own time; one that fails keeps what it told last."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

import httpx
import pytest

from policies.world import Resources
from provisioner.calls import InlineCalls, ThreadedCalls
from provisioner.clock import ManualClock
from provisioner.errors import ProviderError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns
from provisioner.offers.market import Market
from provisioner.offers.refresh import Refresher, Source, sources_of
from provisioner.offers.settings import OffersSettings
from tests.contract.machines import wait_until
from tests.provisioner.world import ON_DEMAND, START, offer

HOUR = timedelta(hours=1)
HEAD = "InstanceType,vCPUs,MemoryGiB,Price,SpotPrice,Region\n"


class Fickle:
    """A source that fails when it is told to."""

    def __init__(self, market: Market) -> None:
        self.reads: list[datetime] = []
        self.fails = False
        self._market = market

    def read(self, now: datetime) -> None:
        self.reads.append(now)
        if self.fails:
            raise ProviderError("no answer")
        self._market.catalogue.update_columns("list", Columns.of([offer("a", ON_DEMAND)]), now)


@pytest.fixture
def market() -> Market:
    return Market(Catalogue())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def test_each_in_its_own_time(market: Market, clock: ManualClock) -> None:
    source = Fickle(market)
    refresher = Refresher([Source("list", HOUR, source.read)], clock, InlineCalls(), market)
    for _ in range(130):
        refresher.refresh()
        clock.set(clock.now() + timedelta(minutes=1))
    assert source.reads == [START, START + HOUR, START + 2 * HOUR]


def test_a_failure_is_told_tried_again_soon_and_loses_nothing(
    market: Market, clock: ManualClock
) -> None:
    source = Fickle(market)
    refresher = Refresher([Source("list", HOUR, source.read)], clock, InlineCalls(), market)
    refresher.refresh()
    source.fails = True
    clock.set(START + HOUR)
    refresher.refresh()
    assert market.source_errors == {"list": "no answer"}
    assert len(market.catalogue.stocks()[0].table) == 1
    source.fails = False
    clock.set(START + HOUR + timedelta(minutes=5))
    refresher.refresh()
    assert market.source_errors == {}
    assert len(source.reads) == 3


def test_a_source_that_hangs_delays_no_other(market: Market, clock: ManualClock) -> None:
    gate, calls = Event(), ThreadedCalls()
    fickle = Fickle(market)
    refresher = Refresher(
        [
            Source("slow", HOUR, lambda _: gate.wait(60) and None),  # type: ignore[func-returns-value]
            Source("list", HOUR, fickle.read),
        ],
        clock,
        calls,
        market,
    )
    refresher.refresh()
    wait_until(lambda: fickle.reads)
    for _ in range(5):
        refresher.refresh()
    assert len(market.catalogue.stocks()) == 1
    gate.set()
    calls.close()


def test_files_are_read_again_when_they_change(
    market: Market, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "mycloud.csv"
    file.write_text(HEAD + "small,2,4,0.10,,here\n")
    os.utime(file, (START.timestamp() - 60,) * 2)
    sources = sources_of(OffersSettings(csv=(tmp_path,)), market, httpx.Client)
    refresher = Refresher(sources, clock, InlineCalls(), market)
    refresher.refresh()
    (stock,) = market.catalogue.stocks()
    assert (stock.source, stock.at) == (str(file), START - timedelta(seconds=60))
    assert not stock.buyable
    file.write_text(HEAD + "small,2,4,0.12,,here\nlarge,4,8,0.20,,here\n")
    clock.set(START + timedelta(minutes=2))
    refresher.refresh()
    (stock,) = market.catalogue.stocks()
    assert (stock.diff.added, stock.diff.removed, stock.diff.repriced) == (1, 0, 1)
    assert "~ mycloud/here/here/small/on-demand 0.1 -> 0.12" in stock.diff.examples
    file.write_text("nonsense")
    clock.set(START + timedelta(minutes=4))
    refresher.refresh()
    assert "no CSV files with offers" in market.source_errors[str(tmp_path)]
    assert len(market.catalogue.stocks()[0].table) == 2, "what was good is kept"


def test_azures_list_waits_for_what_its_types_are(market: Market, clock: ManualClock) -> None:
    sources = sources_of(OffersSettings(azure_retail=True), market, httpx.Client)
    Refresher(sources, clock, InlineCalls(), market).refresh()
    assert "without their CPUs and memory" in market.source_errors["azure retail prices"]


def test_shapes_come_from_any_source(market: Market) -> None:
    market.catalogue.update("fake", [offer("a", ON_DEMAND)])
    assert market.catalogue.shapes("fake") == {"small": Resources(2, 4)}
    assert market.catalogue.shapes("other") == {}


def test_libclouds_file_says_how_old_it_is(market: Market, clock: ManualClock) -> None:
    sources = sources_of(OffersSettings(libcloud_file=True), market, httpx.Client)
    Refresher(sources, clock, InlineCalls(), market).refresh()
    (stock,) = market.catalogue.stocks()
    assert stock.at is not None
    assert stock.at.year == 2025
    assert len(stock.quarantined) >= 2754
