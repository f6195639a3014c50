"""No transitional state lasts for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from policies.world import InstanceState, JobState
from provisioner.reconcile.deadlines import UNREACHABLE_LIMIT
from provisioner.states import INSTANCE_MOVES, JOB_MOVES, STATE_LIMIT_S
from provisioner.store import actions, cooldowns, instances
from provisioner.store.actions import ActionState
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import World

I = InstanceState
RESTING = {I.READY, I.STOPPED, I.HIBERNATED, I.TERMINATED, I.FAILED}


def test_every_state_in_which_something_is_awaited_has_a_limit() -> None:
    assert set(STATE_LIMIT_S) == set(I) - RESTING


def test_every_live_state_can_be_left_for_an_end() -> None:
    for state, moves in INSTANCE_MOVES.items():
        assert state.live == bool(moves & {I.TERMINATED, I.TERMINATING}) or state is I.FAILED
    for job_state, job_moves in JOB_MOVES.items():
        assert job_state.ended == (not job_moves)
        assert job_state.ended or JobState.CANCELLED in job_moves


def put(world: World, id: str, state: InstanceState, **changes: object) -> None:
    """An instance is in a state, with no action under way."""
    with world.store.write() as connection:
        for action in actions.due(connection, world.now + timedelta(days=1)):
            actions.update(connection, action.id, ActionState.DONE, world.now)
        instances.update(connection, id, state=state, state_since=world.now, **changes)


def test_a_planned_launch_that_nobody_makes_is_over(world: World) -> None:
    world.submit()
    world.tick(1)
    row = world.row()
    world.cloud.forget(next(iter(world.cloud._machines)).seen.id)
    put(world, row.id, I.PLANNED, machine_id=None)
    world.tick(1, STATE_LIMIT_S[I.PLANNED] + 1)
    assert (world.rows()[0].state, world.rows()[0].reason) == (I.FAILED, "never-launched")


def test_a_launch_without_a_result_is_over(world: World) -> None:
    world.submit()
    world.tick(1)
    world.cloud.forget(next(iter(world.cloud._machines)).seen.id)
    put(world, world.row().id, I.LAUNCHING, machine_id=None)
    world.tick(1, STATE_LIMIT_S[I.LAUNCHING] + 1)
    assert world.rows()[0].reason in ("launching-timeout", "never-launched")
    world.tick(3)
    assert world.rows()[0].state is I.TERMINATED


@pytest.mark.parametrize("kind", ["desk", "job"])
def test_a_boot_in_which_no_agent_calls_is_ended_and_its_offer_cooled(
    world: World, kind: str
) -> None:
    world.deaf.add("fake")
    if kind == "desk":
        owner = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    else:
        owner = world.submit()
    world.tick_until(lambda: world.row().state is I.BOOTING if world.rows() else False)
    first = world.row(owner)
    world.tick_until(lambda: len(world.rows(owner)) == 2, seconds=30)
    assert world.now - first.created_at >= timedelta(seconds=STATE_LIMIT_S[I.BOOTING])
    with world.store.read() as connection:
        scopes = {c.scope: c.reason for c in cooldowns.active(connection, world.now)}
    assert scopes[first.offer.id] == "the agent did not call in"
    assert world.row(owner).offer.id != first.offer.id
    world.deaf.clear()
    world.tick_until(lambda: world.state(owner) is I.READY)
    world.tick_until(lambda: len(world.machines()) == 1)
    if kind == "job":
        attempts = world.roost.jobs.get(world.admin, owner).attempts
        assert next((a.state, a.reason) for a in attempts) == ("interrupted", "booting-timeout")


@pytest.mark.parametrize(
    ("state", "call"),
    [(I.STOPPING, "stop"), (I.TERMINATING, "terminate")],
)
def test_a_call_that_had_no_effect_is_made_again(
    world: World, state: InstanceState, call: str
) -> None:
    """Accepted, and forgotten by the provider."""
    desk = world.ready_desk()
    before = world.calls(call)
    put(world, world.row(desk).id, state)
    world.tick(1, STATE_LIMIT_S[state] + 1)
    world.tick(1)
    assert world.calls(call) == before + 1


def test_a_start_that_had_no_effect_is_made_again(world: World) -> None:
    desk = world.ready_desk()
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    start = world.cloud.start

    def forgets(machine_id: str) -> None:
        world.cloud.start = start  # type: ignore[method-assign]

    world.cloud.start = forgets  # type: ignore[method-assign]
    world.roost.workstations.start(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert len(world.rows(desk)) == 1


def test_a_drain_that_does_not_end_is_ended(world: World) -> None:
    job = world.running_job()
    agent = world.agent(job)
    agent.obey = lambda answer: None  # type: ignore[method-assign]
    put(world, world.row(job).id, I.DRAINING)
    world.tick_until(lambda: world.rows(job)[0].state is I.TERMINATING, seconds=20)
    assert world.rows(job)[0].reason == "draining-timeout"
    world.tick_until(lambda: world.job(job).attempt == 2)


def test_a_machine_whose_agent_falls_silent_is_given_up(world: World) -> None:
    job = world.running_job()
    world.agent(job).silent = True
    silent_since = world.now
    world.tick_until(lambda: world.rows(job)[0].state is I.TERMINATING, seconds=10)
    assert timedelta() <= world.now - silent_since - UNREACHABLE_LIMIT <= timedelta(seconds=20)
    assert world.rows(job)[0].reason == "unreachable"
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    assert world.job(job).attempt == 2
    world.tick_until(lambda: len(world.machines()) == 1)


def test_a_short_silence_is_forgiven(world: World) -> None:
    job = world.running_job()
    world.agent(job).silent = True
    world.tick(20, 10)
    world.agent(job).silent = False
    world.tick(20, 10)
    assert world.states(job) == [I.READY]


def test_a_leap_of_the_clock_in_the_midst_of_a_tick_is_no_silence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.running_job()
    reconciler = world.roost.reconciler
    perform = reconciler._performer.perform

    def host_sleeps(*what: Any) -> None:
        perform(*what)
        world.clock.set(world.now + timedelta(minutes=30))

    with monkeypatch.context() as patch:
        patch.setattr(reconciler._performer, "perform", host_sleeps)
        reconciler.tick()
    reconciler.tick()  # before any agent could call in
    world.tick(3)
    assert world.states(job) == [I.READY]
