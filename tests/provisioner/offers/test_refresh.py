"""Sources are read in their own time; one that fails keeps what it told last."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from policies.world import Resources
from provisioner.calls import InlineCalls, ThreadedCalls
from provisioner.clock import ManualClock
from provisioner.errors import ProviderError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns
from provisioner.offers.market import Market
from provisioner.offers.refresh import Refresher, Source, sources_of
from provisioner.offers.service import Offers
from provisioner.offers.settings import OffersSettings, OwnOffer
from provisioner.people import Actor, Role
from tests.contract.machines import wait_until
from tests.provisioner.world import ON_DEMAND, START, offer

HOUR = timedelta(hours=1)
ANYBODY = Actor("p-1", "somebody", None, None, Role.ADMIN)
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
    wait_until(market.catalogue.stocks)
    for _ in range(5):
        refresher.refresh()
    assert len(market.catalogue.stocks()) == 1
    gate.set()
    calls.close()


def test_a_source_that_never_answered_is_seen(market: Market, clock: ManualClock) -> None:
    source = Fickle(market)
    source.fails = True
    refresher = Refresher([Source("list", HOUR, source.read)], clock, InlineCalls(), market)
    (seen,) = Offers(market, clock).sources(ANYBODY)
    assert (seen.name, seen.offers, seen.error) == ("list", 0, "It has not been read yet.")
    refresher.refresh()
    (seen,) = Offers(market, clock).sources(ANYBODY)
    assert (seen.at, seen.error) == (None, "no answer")


def reading(market: Market, clock: ManualClock, **named: Any) -> Callable[[], None]:
    """Reads what the settings name; each time a while later."""
    sources = sources_of(OffersSettings(**named), market, httpx.Client)
    refresher = Refresher(sources, clock, InlineCalls(), market)

    def read() -> None:
        clock.set(clock.now() + timedelta(minutes=2))
        refresher.refresh()

    return read


def test_files_are_read_again_when_they_change(
    market: Market, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "mycloud.csv"
    file.write_text(HEAD + "small,2,4,0.10,,here\n")
    os.utime(file, (START.timestamp() - 60,) * 2)
    read = reading(market, clock, csv=(tmp_path,))
    read()
    (stock,) = market.catalogue.stocks()
    assert (stock.source, stock.at) == (str(file), START - timedelta(seconds=60))
    assert not stock.buyable
    read()
    assert market.catalogue.stocks()[0] is stock, "nothing has changed"
    file.write_text(HEAD + "small,2,4,0.12,,here\nlarge,4,8,0.20,,here\n")
    read()
    (stock,) = market.catalogue.stocks()
    assert (stock.diff.added, stock.diff.removed, stock.diff.repriced) == (1, 0, 1)
    assert "~ mycloud/here/here/small/on-demand 0.1 -> 0.12" in stock.diff.examples
    file.write_text("nonsense")
    read()
    assert "no CSV files with offers" in market.source_errors[str(tmp_path)]
    assert len(market.catalogue.stocks()[0].table) == 2, "what was good is kept"


def test_one_bad_file_hides_no_other_and_one_that_is_gone_is_forgotten(
    market: Market, clock: ManualClock, tmp_path: Path
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(HEAD + "small,2,4,0.10,,here\n")
    (tmp_path / "a.csv").write_bytes(HEAD.encode() + b"\xff\xfe,2,4,0.10,,here\n")
    read = reading(market, clock, csv=(tmp_path,))

    def known() -> list[str]:
        return [Path(stock.source).stem for stock in market.catalogue.stocks()]

    read()
    assert known() == ["b", "c"]
    assert "a.csv cannot be read as CSV" in market.source_errors[str(tmp_path)]
    (tmp_path / "a.csv").write_text(HEAD + "small,2,4,0.10,,here\n")
    (tmp_path / "b.csv").unlink()
    read()
    assert known() == ["a", "c"]
    assert market.source_errors == {}
    (tmp_path / "c.csv").write_text("nonsense\n")
    read()
    assert known() == ["a", "c"], "what was good is kept"
    assert "c.csv holds no offers any more" in market.source_errors[str(tmp_path)]


def test_offers_of_the_settings_themselves(market: Market, clock: ManualClock) -> None:
    own = {
        "provider": "lab",
        "region": "cellar",
        "type": "rack",
        "cpus": 64,
        "memory_gib": 512,
        "gpus": 4,
        "gpu_model": "NVIDIA A100 80GB PCIe",
        "price_per_hour": "2.50",
    }
    reading(market, clock, own=(own,))()
    (stock,) = market.catalogue.stocks()
    (one,) = stock.table.offers()
    assert one.id == "lab/cellar/cellar/rack/on-demand"
    assert (one.resources.gpu_model, one.price_per_hour) == ("A100-80GB", Decimal("2.5"))
    assert not stock.buyable
    assert not stock.is_stale(clock.now())


@pytest.mark.parametrize(
    "wrong",
    [{"price_per_hour": 0}, {"cpus": 0}, {"region": "a/b"}, {"currency": "euro"}, {"cpu": 1}],
    ids=str,
)
def test_offers_of_the_settings_must_be_offers(wrong: dict[str, Any]) -> None:
    own = {"provider": "lab", "region": "r", "type": "t", "cpus": 1, "memory_gib": 1}
    with pytest.raises(ValidationError):
        OwnOffer.model_validate(own | {"price_per_hour": 1} | wrong)


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
    assert stock.is_stale(clock.now())
    assert len(stock.quarantined) >= 2754
