"""The provider's own bill is run times at prices, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.world import PurchaseMode
from provisioner.clock import ManualClock, SystemClock
from provisioner.errors import InvalidRequest
from provisioner.providers.contract import MachineState
from provisioner.providers.local.meter import Run, cost
from provisioner.providers.local.volumes import Volumes
from tests.contract.machines import (
    LocalMachines,
    machine_of,
    request_for,
    state_of,
    wait_until,
)

S = MachineState
START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ALWAYS = (START.replace(year=2000), START.replace(year=2999))


def test_a_spot_machine_is_billed_at_the_prices_that_were_told(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    request = request_for(provider, mode=PurchaseMode.SPOT)
    provider.launch(request)
    provider.terminate("one")
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    machine = machine_of(provider)
    assert machine.run_started_at is not None
    assert machine.run_ended_at is not None
    points = provider.prices(
        request.offer.instance_type,
        request.offer.zone,
        PurchaseMode.SPOT,
        machine.run_started_at,
        machine.run_ended_at,
    )
    ends = [point.at for point in points[1:]] + [machine.run_ended_at]
    total = Decimal(0)
    for point, end in zip(points, ends, strict=True):
        since = max(point.at, machine.run_started_at)
        total += point.price * ((end - since) // timedelta(microseconds=1))
    assert provider.bill(*ALWAYS) == {"one": total / Decimal(3_600_000_000)}


def test_a_running_machine_is_billed_up_to_now(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    request = request_for(provider)
    provider.launch(request)
    started = machine_of(provider).run_started_at
    assert started is not None
    before = SystemClock().now()
    bill = provider.bill(*ALWAYS)["one"]
    after = SystemClock().now()
    rate = request.offer.price_per_hour / Decimal(3_600_000_000)
    microsecond = timedelta(microseconds=1)
    assert rate * ((before - started) // microsecond) <= bill
    assert bill <= rate * ((after - started) // microsecond)
    assert provider.bill(ALWAYS[0], started) == {}


def test_each_installation_has_its_own_bill(local_machines: LocalMachines) -> None:
    mine = local_machines.provider()
    theirs = local_machines.provider(installation="theirs")
    mine.launch(request_for(mine, "one"))
    theirs.launch(request_for(theirs, "two"))
    assert set(mine.bill(*ALWAYS)) == {"one"}
    assert set(theirs.bill(*ALWAYS)) == {"two"}


@given(
    cuts=st.lists(st.integers(0, 10**10), min_size=2, max_size=6, unique=True).map(sorted),
    split=st.integers(0, 10**10),
)
def test_a_bill_is_the_sum_of_its_parts(cuts: list[int], split: int) -> None:
    def instant(microseconds: int) -> datetime:
        return START + timedelta(microseconds=microseconds)

    runs = [Run(instant(a), instant(b)) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]

    def points(start: datetime, end: datetime) -> list[tuple[datetime, Decimal]]:
        hours = range((start - START) // HOUR, -((START - end) // HOUR))
        return [(START + hour * HOUR, Decimal(hour + 1) / 8) for hour in hours]

    end = START + timedelta(days=1)
    whole = cost(runs, START, end, points)
    parts = cost(runs, START, instant(split), points) + cost(runs, instant(split), end, points)
    assert abs(whole - parts) < Decimal("1e-20")
    last = runs[-1]
    assert last.end is not None
    assert cost([Run(last.start, None)], START, last.end, points) == cost(
        [last], START, end, points
    )


def test_storage_is_billed_from_creation_to_deletion(tmp_path: Path) -> None:
    clock = ManualClock(START)
    volumes = Volumes(tmp_path, "test")
    volumes.ensure("v", 10, clock.now())
    clock.set(START + 73 * HOUR)
    volumes.ensure("v", 99, clock.now())
    volumes.retire("v", clock.now())
    volumes.ensure("v", 20, START + 100 * HOUR)

    def points(start: datetime, end: datetime) -> list[tuple[datetime, Decimal]]:
        return [(start, Decimal("0.05"))]

    bill = volumes.bill(START, START + 173 * HOUR, points)
    assert bill == {"v": Decimal("0.05") * 10 / 10 + Decimal("0.05") * 20 / 10}
    assert [(volume.id, volume.gib) for volume in volumes.list({})] == [("v", 20)]


def test_the_volume_of_another_installation_is_neither_attached_nor_deleted(
    local_machines: LocalMachines,
) -> None:
    mine = local_machines.provider()
    mine.launch(request_for(mine, volume_id="v"))
    mine.terminate("one")
    wait_until(lambda: state_of(mine) is S.TERMINATED)
    theirs = local_machines.provider(installation="theirs")
    with pytest.raises(InvalidRequest):
        theirs.launch(request_for(theirs, "two", volume_id="v"))
    theirs.delete_volume("v")
    assert theirs.list().machines == ()
    assert [volume.id for volume in mine.list().volumes] == ["v"]
