"""Threads around the calls: what one provider does delays nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from policies.world import InstanceState
from provisioner.calls import ThreadedCalls
from provisioner.providers.contract import LaunchRequest, Listing, Machine
from provisioner.reconcile import watch
from provisioner.simulation.cloud import FakeCloud
from provisioner.store.engine import Store
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ABLE, ON_DEMAND, World, offer

I = InstanceState


class Hanging(FakeCloud):
    """Does not answer while its gate is closed."""

    gate: Event
    closed: set[str]

    def list(self) -> Listing:
        self._wait("list")
        return super().list()

    def launch(self, request: LaunchRequest) -> Machine:
        self._wait("launch")
        return super().launch(request)

    def _wait(self, call: str) -> None:
        if call in self.closed:
            assert self.gate.wait(60)


@pytest.fixture
def threaded(
    lite: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[World, Hanging]]:
    """A world with threads around its calls, and two clouds, one of which can hang."""
    monkeypatch.setattr(watch, "LISTING_TIMEOUT_S", 0.5)
    calls, made = ThreadedCalls(), []

    def wrap(cloud: FakeCloud) -> FakeCloud:
        if cloud.name == "fake":
            return cloud
        hanging = Hanging(cloud._clock, ABLE, list(cloud._offers.values()), name="slow")
        hanging.gate, hanging.closed = Event(), set()
        made.append(hanging)
        return hanging

    clouds = {
        "fake": [offer("a", ON_DEMAND, "0.30")],
        "slow": [offer("a", ON_DEMAND, "0.10", provider="slow")],
    }
    world = World(lite, tmp_path, clouds, calls=calls, wrap=wrap)
    (slow,) = made
    world.clouds["slow"] = slow
    yield world, slow
    slow.gate.set()
    calls.close()


def settle(world: World, condition: Callable[[], object]) -> None:
    """Let rounds pass until the condition holds; the calls' threads need real time."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        world.tick(1, 5)
        time.sleep(0.01)


def desk(world: World, provider: str) -> str:
    new = NewWorkstation(f"on-{provider}", provider=provider)
    return world.roost.workstations.create(world.admin, new).id


def test_a_provider_that_hangs_delays_nobody_elses_machines(
    threaded: tuple[World, Hanging],
) -> None:
    world, slow = threaded
    slow.closed.add("list")
    mine = desk(world, "fake")
    settle(world, lambda: world.state(mine) is I.READY)
    waited = time.monotonic()
    world.tick(10, 10)
    assert time.monotonic() - waited < 5, "it is waited for once, not in each round"
    status = {p.name: p for p in world.roost.status().providers}
    assert (status["slow"].stale, status["fake"].stale) == (True, False)
    assert status["slow"].message
    slow.gate.set()
    theirs = desk(world, "slow")
    settle(world, lambda: world.state(theirs) is I.READY)
    status = {p.name: p for p in world.roost.status().providers}
    assert (status["slow"].stale, status["slow"].message) == (False, None)


def test_launches_that_hang_take_no_other_providers_turn(
    threaded: tuple[World, Hanging],
) -> None:
    world, slow = threaded
    slow.closed.add("launch")
    theirs = [
        world.roost.workstations.create(
            world.admin, NewWorkstation(f"slow-{n}", provider="slow")
        ).id
        for n in range(12)
    ]
    settle(world, lambda: world.state(theirs[0]) is not None)
    mine = desk(world, "fake")
    settle(world, lambda: world.state(mine) is I.READY)
    slow.gate.set()
    settle(world, lambda: all(world.state(id) is I.READY for id in theirs))
    assert sum(1 for c in slow.calls if c[1] == "launch") >= 12
    assert len(slow.list().machines) == len({m.launch_id for m in slow.list().machines})
    settle(world, lambda: len(world.machines()) == 13)


def test_a_hanging_launch_is_not_sent_a_second_time(threaded: tuple[World, Hanging]) -> None:
    world, slow = threaded
    slow.closed.add("launch")
    theirs = desk(world, "slow")
    settle(world, lambda: world.state(theirs) is I.LAUNCHING)
    world.tick(10, 10)
    assert slow.calls.count((world.now, "launch", "")) == 0
    slow.gate.set()
    settle(world, lambda: world.state(theirs) is I.READY)
    assert [c[1] for c in slow.calls].count("launch") == 1


def test_status_before_anything_was_heard(threaded: tuple[World, Hanging]) -> None:
    world, _ = threaded
    world.tick(1)
    status = world.roost.status()
    assert status.epoch == 1
    assert status.reconciler_holder
    assert status.last_tick_at == world.now
    assert timedelta() <= world.now - (status.providers[0].listed_at or world.now)
