"""The faults of the fake cloud: each one happens as it was ordered, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from policies.world import Offer, PurchaseMode, Resources
from provisioner.clock import ManualClock
from provisioner.errors import Ambiguous, CapacityError, InvalidRequest, ThrottledError
from provisioner.providers.contract import (
    Capabilities,
    EndReason,
    LaunchRequest,
    MachineState,
)
from provisioner.simulation.cloud import FakeCloud

S = MachineState
START = datetime(2026, 3, 1, tzinfo=UTC)
ALL = Capabilities(spot=True, stop=True, client_tokens=True, volumes=True)
OFFER = Offer(
    id="fake/r/z/small/spot",
    provider="fake",
    region="r",
    zone="z",
    instance_type="small",
    mode=PurchaseMode.SPOT,
    resources=Resources(2, 4),
    price_per_hour=Decimal("0.30"),
    currency="USD",
    can_stop=False,
)
REQUEST = LaunchRequest("one", OFFER, "#!/bin/sh\n")


def make(capabilities: Capabilities = ALL) -> tuple[FakeCloud, ManualClock]:
    clock = ManualClock(START)
    return FakeCloud(clock, capabilities, [OFFER], boot_delay_s=30), clock


def after(clock: ManualClock, seconds: float) -> None:
    clock.set(clock.now() + timedelta(seconds=seconds))


def test_a_lost_reply_has_taken_effect() -> None:
    cloud, _ = make()
    cloud.lose_reply("launch")
    with pytest.raises(Ambiguous):
        cloud.launch(REQUEST)
    (machine,) = cloud.list().machines
    assert cloud.launch(REQUEST).id == machine.id


def test_without_tokens_a_repeated_launch_makes_a_second_machine() -> None:
    cloud, _ = make(replace(ALL, client_tokens=False))
    cloud.lose_reply("launch")
    with pytest.raises(Ambiguous):
        cloud.launch(REQUEST)
    cloud.launch(REQUEST)
    assert [machine.launch_id for machine in cloud.list().machines] == ["one", "one"]


def test_scripted_errors_come_in_order_and_once() -> None:
    cloud, _ = make()
    cloud.fail_next("launch", CapacityError("none"))
    cloud.fail_next("launch", ThrottledError("slowly"))
    with pytest.raises(CapacityError):
        cloud.launch(REQUEST)
    with pytest.raises(ThrottledError):
        cloud.launch(REQUEST)
    assert cloud.list().machines == ()
    assert cloud.launch(REQUEST).state is S.PENDING
    assert [call for _, call, _ in cloud.calls] == ["launch", "launch", "list", "launch"]


def test_what_is_scarce_cannot_be_had() -> None:
    cloud, _ = make()
    cloud.scarce.add("fake/r")
    with pytest.raises(CapacityError):
        cloud.launch(REQUEST)
    cloud.scarce.clear()
    cloud.launch(REQUEST)


def test_a_new_machine_is_missing_from_the_listing_for_a_while() -> None:
    cloud, clock = make(replace(ALL, listing_lag_s=5))
    cloud.launch(REQUEST)
    assert cloud.list().machines == ()
    after(clock, 5)
    assert len(cloud.list().machines) == 1


def test_a_machine_boots_after_its_delay_even_if_nobody_looked() -> None:
    cloud, clock = make()
    cloud.launch(REQUEST)
    after(clock, 29)
    assert cloud.list().machines[0].state is S.PENDING
    after(clock, 3600)
    (machine,) = cloud.list().machines
    assert (machine.state, machine.run_started_at) == (S.RUNNING, START + timedelta(seconds=30))


def test_a_reclaim_takes_the_machine_when_it_was_due() -> None:
    cloud, clock = make()
    machine = cloud.launch(REQUEST)
    after(clock, 60)
    at = cloud.reclaim(machine.id, notice_s=120)
    assert at == clock.now() + timedelta(seconds=120)
    after(clock, 119)
    assert cloud.list().machines[0].state is S.RUNNING
    after(clock, 1000)
    (ended,) = cloud.list().machines
    assert (ended.state, ended.run_ended_at) == (S.TERMINATED, at)
    assert ended.end_reason is EndReason.RECLAIMED
    assert cloud.bill(START, clock.now()) == {machine.id: Decimal("0.30") * 150 / 3600}


def test_tombstones_disappear_in_time() -> None:
    cloud, clock = make(replace(ALL, ended_visible_s=100))
    machine = cloud.launch(REQUEST)
    cloud.terminate(machine.id)
    after(clock, 20 + 99)
    assert len(cloud.list().machines) == 1
    after(clock, 1)
    assert cloud.list().machines == ()


def test_the_bill_follows_the_price() -> None:
    cloud, clock = make()
    machine = cloud.launch(REQUEST)
    after(clock, 30 + 1800)
    cloud.list()
    cloud.set_price(OFFER.id, Decimal("0.60"))
    after(clock, 1800)
    assert cloud.bill(START, clock.now()) == {machine.id: Decimal("0.45")}
    (offer,) = cloud.offers()
    assert offer.price_per_hour == Decimal("0.60")
    points = cloud.prices("small", "z", PurchaseMode.SPOT, START, clock.now())
    assert [point.price for point in points] == [Decimal("0.30"), Decimal("0.60")]


def test_what_it_cannot_do_it_refuses() -> None:
    cloud, _ = make(Capabilities())
    with pytest.raises(InvalidRequest):
        cloud.launch(REQUEST)
    cloud, _ = make(replace(ALL, volumes=False))
    with pytest.raises(InvalidRequest):
        cloud.launch(replace(REQUEST, volume_id="v"))
    assert cloud.rates().volume_gib_month is None
