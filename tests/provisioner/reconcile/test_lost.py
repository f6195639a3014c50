"""Machines that vanish from the listing, come back, or are switched off from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal

import pytest

from policies.world import Desire, InstanceState, JobState
from provisioner.costs import IntervalView
from provisioner.providers.contract import Listing
from provisioner.states import STATE_LIMIT_S
from tests.provisioner.world import World, vanish

I = InstanceState


@contextmanager
def hidden(world: World, machine_id: str) -> Iterator[None]:
    """The machine runs on, and the listing has lost it."""
    truth = world.cloud.list

    def without() -> Listing:
        listing = truth()
        return replace(listing, machines=tuple(m for m in listing.machines if m.id != machine_id))

    world.cloud.list = without  # type: ignore[method-assign]
    yield
    world.cloud.list = truth  # type: ignore[method-assign]


def intervals(world: World, owner_id: str) -> list[IntervalView]:
    page = world.roost.costs.intervals(world.admin, 50, None, owner_id)
    machines = {row.id for row in world.rows()}
    return [view for view in page.items if view.resource_id in machines]


def silence(world: World, owner_id: str) -> str:
    world.agent(owner_id).silent = True
    id = world.row(owner_id).machine_id
    assert id is not None
    return id


def test_missing_once_is_nothing(world: World) -> None:
    desk = world.ready_desk()
    with hidden(world, silence(world, desk)):
        world.tick(1, 40)
    assert world.row(desk).missing_count == 1
    world.tick(1)
    assert (world.state(desk), world.row(desk).missing_count) == (I.READY, 0)


def test_missing_twice_is_lost_unless_its_agent_speaks(world: World) -> None:
    desk = world.ready_desk()
    id = world.row(desk).machine_id or ""
    with hidden(world, id):
        world.tick(20, 5)
        assert world.state(desk) is I.READY, "its agent calls in: the listing is wrong"
        silence(world, desk)
        world.tick(8, 5)
        assert world.state(desk) is I.LOST


def test_found_again_it_is_ready_and_all_of_its_time_is_charged(either: World) -> None:
    world = either
    desk = world.ready_desk()
    world.tick(1, 100)
    with hidden(world, silence(world, desk)):
        world.tick_until(lambda: world.state(desk) is I.LOST)
        world.tick(3, 30)
    world.agent(desk).silent = False
    world.tick(2)
    assert (world.state(desk), world.row(desk).reason) == (I.READY, "found-again")
    world.tick(10, 60)
    before, after = intervals(world, desk)
    assert before.estimated
    assert (before.end, after.open) == (after.start, True)
    machine = sum((view.cost or Decimal() for view in (before, after)), Decimal())
    assert abs(machine - world.bill()) < Decimal("1e-9")


def test_not_found_again_it_has_ended_where_it_was_last_seen(world: World) -> None:
    desk = world.ready_desk()
    world.tick(1, 100)
    seen = world.now
    id = silence(world, desk)
    vanish(world.cloud, id)
    del world.agents["fake", id]
    world.tick_until(lambda: world.state(desk) is not I.READY)
    assert world.state(desk) is I.LOST
    world.tick_until(lambda: world.states(desk)[0] is I.TERMINATED, seconds=20)
    first = world.rows(desk)[0]
    assert (first.reason, first.ended_at) == ("lost", seen)
    (interval,) = intervals(world, desk)[:1]
    assert (interval.end, interval.estimated, interval.open) == (seen, True, False)
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert len(world.rows(desk)) == 2


def test_lost_it_is_waited_for_until_its_limit(world: World) -> None:
    desk = world.ready_desk()
    with hidden(world, silence(world, desk)):
        world.tick_until(lambda: world.state(desk) is I.LOST)
        world.tick(int(STATE_LIMIT_S[I.LOST] // 30) - 1, 30)
        assert world.state(desk) is I.LOST
        world.tick(3, 30)
        assert world.states(desk)[0] is I.TERMINATED
    # and if it is there after all, it is collected: nobody pays for it twice
    world.tick_until(lambda: len(world.machines()) <= 1)


def test_a_job_whose_machine_is_lost_goes_on_elsewhere_and_the_lost_one_goes(
    world: World,
) -> None:
    job = world.running_job()
    id = silence(world, job)
    with hidden(world, id):
        world.tick_until(lambda: len(world.rows(job)) == 2)
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    world.tick_until(lambda: len(world.machines()) == 1)
    assert world.machines()[0].id == world.row(job).machine_id
    assert world.roost.jobs.get(world.admin, job).attempts[0].reason == "not-listed"


@pytest.mark.parametrize("lost", [False, True])
def test_a_stop_from_outside_is_mirrored_and_a_wanted_desk_started_again(
    world: World, lost: bool
) -> None:
    desk = world.ready_desk()
    id = world.row(desk).machine_id or ""
    if lost:
        with hidden(world, silence(world, desk)):
            world.tick_until(lambda: world.state(desk) is I.LOST)
        world.agent(desk).silent = False
    world.cloud.stop(id)
    world.tick_until(lambda: world.state(desk) is I.STARTING)
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert len(world.rows(desk)) == 1
    stops = [view for view in intervals(world, desk) if not view.open and not view.estimated]
    assert len(stops) == 1
    total = sum((view.cost or Decimal() for view in intervals(world, desk)), Decimal())
    assert abs(total - world.bill()) < Decimal("1e-9")


def test_a_machine_terminated_from_outside_is_replaced_with_the_same_home(world: World) -> None:
    desk = world.ready_desk()
    world.cloud.terminate(world.row(desk).machine_id or "")
    world.tick_until(lambda: len(world.rows(desk)) == 2)
    first, second = world.rows(desk)
    assert (first.state, first.reason) == (I.TERMINATED, "terminated")
    assert first.volume_id == second.volume_id
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert world.roost.workstations.get(world.admin, desk).desire is Desire.ON


def test_a_reclaim_without_notice_is_mirrored_with_its_reason(world: World) -> None:
    job = world.running_job()
    assert world.row(job).offer.mode == "spot"
    when = world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick(1)
    assert world.rows(job)[0].reason == "reclaimed"
    assert world.rows(job)[0].ended_at == when


def test_lost_at_the_very_instant_of_its_start_it_is_charged_all_the_same(world: World) -> None:
    desk = world.ready_desk()
    with hidden(world, silence(world, desk)):
        world.tick_until(lambda: world.state(desk) is I.LOST)
    world.agent(desk).silent = False
    world.tick(5, 60)
    (interval,) = intervals(world, desk)
    assert interval.cost is not None
    assert abs(interval.cost - world.bill()) < Decimal("1e-9")
