"""Two control planes on one database: one leads, and the former leader can do no harm.

The first one is paused at a point of its protocol until its lease has run out and the second one
has taken over and worked on; then it wakes and goes on as if nothing had happened.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from cost.ledger import ResourceKind, total
from cost.periods import Period
from policies.world import InstanceState
from provisioner import crashpoints
from provisioner.app import Roost
from provisioner.calls import InlineCalls
from provisioner.crashpoints import Point
from provisioner.jobs.service import NewJob
from provisioner.ledger import entries
from provisioner.statefolder import StateFolder
from provisioner.store import actions, lease
from provisioner.store.actions import CallKind
from provisioner.store.engine import Store
from provisioner.workstations.service import NewWorkstation
from tests.crash.controlplane import FOREVER
from tests.provisioner.world import ABLE, World, machines_of

STALE = re.compile(r"lease went from epoch 1 to 2|lost the lease")


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    crashpoints.arm(None)


class Pair:
    """The leader of a world, and another one that stands by."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.first = world.roost
        self.second = Roost(
            world.roost.settings,
            world.store,
            world.clock,
            InlineCalls(),
            StateFolder(folder / "second"),
            world.roost.installation,
            world.roost.providers,
        )
        self.second.__dict__["agent_wheel"] = world.roost.agent_wheel
        self.taken_over = False

    def pause_first_at(self, point: Point, kind: str, pause_s: float) -> None:
        """Let its next tick sleep at the point while the second one takes over."""

        def sleep(here: Point, call: str) -> None:
            if here is not point or call not in ("", kind) or self.taken_over:
                return
            self.taken_over = True
            held = self.first.reconciler.held
            assert held is not None
            lease.release(self.world.store, held)  # it has run out, and nobody told the sleeper
            self.follow(3, pause_s / 3)

        crashpoints.arm(sleep)

    def follow(self, times: int, seconds: float = 5.0) -> None:
        """The second one leads for a while."""
        for _ in range(times):
            self.world.clock.set(self.world.now + timedelta(seconds=seconds))
            self.world.call_in()
            assert self.second.reconciler.tick()

    def first_tick(self) -> bool:
        self.world.clock.set(self.world.now + timedelta(seconds=1))
        return self.first.reconciler.tick()

    def check_the_books(self) -> None:
        """Each machine is booked as it was billed, and nothing is left to do."""
        world = self.world
        begin = world.now - timedelta(days=1)
        with world.store.read() as connection:
            assert actions.due(connection, FOREVER) == []
            found = entries(connection, Period(begin, world.now), world.now)
        booked = {
            entry.resource.name: total(entry.charges)
            for entry in found
            if entry.resource.kind is ResourceKind.INSTANCE
        }
        billed = world.cloud.bill(begin, world.now)
        assert booked.keys() == billed.keys()
        for machine, amount in billed.items():
            assert abs(booked[machine] - amount) < Decimal("1e-9")


@pytest.mark.parametrize("point", list(Point))
def test_a_former_leader_writes_nothing_and_doubles_nothing(
    point: Point, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(World(store, tmp_path), tmp_path)
    world = pair.world
    desk = pair.first.workstations.create(world.admin, NewWorkstation("desk"))
    pair.pause_first_at(point, CallKind.LAUNCH, pause_s=30)
    with caplog.at_level(logging.WARNING):
        pair.first_tick()
    assert pair.taken_over
    if point is not Point.CLOSED:  # after which it had nothing to write any more
        assert STALE.search(caplog.text), "its write was refused"
    assert not pair.first_tick(), "it has seen that it does not lead any more"
    pair.follow(10)
    assert world.states() == [InstanceState.READY]
    assert len(machines_of(world.cloud)) == 1
    pair.second.workstations.delete(world.admin, desk.id)
    pair.follow(12)
    assert world.machines() == []
    assert world.states() == [InstanceState.TERMINATED]
    pair.check_the_books()


def test_where_there_are_no_tokens_the_late_call_of_a_former_leader_is_undone(
    store: Store, tmp_path: Path
) -> None:
    pair = Pair(World(store, tmp_path, able=replace(ABLE, client_tokens=False)), tmp_path)
    world = pair.world
    job = pair.first.jobs.submit(world.admin, NewJob("count", argv=["count"]))
    pair.pause_first_at(Point.SUBMITTED, CallKind.LAUNCH, pause_s=300)
    pair.first_tick()
    assert len(machines_of(world.cloud)) == 2, "nothing could have kept it from being sent"
    pair.follow(10)
    (machine,) = world.machines()
    assert machine.id == world.row(job.id).machine_id
    assert world.states() == [InstanceState.READY]


def test_the_first_leads_again_when_the_second_is_gone(store: Store, tmp_path: Path) -> None:
    pair = Pair(World(store, tmp_path), tmp_path)
    assert pair.first_tick()
    assert not pair.second.reconciler.tick()
    pair.first.reconciler.release()
    pair.follow(1)
    assert not pair.first_tick()
    pair.second.reconciler.release()
    assert pair.first_tick()
    with pair.world.store.read() as connection:
        assert lease.current(connection)[1] == 3
