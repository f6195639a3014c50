"""A launch makes one machine, whatever becomes of the provider's replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from policies.world import InstanceState, JobState
from provisioner.errors import Ambiguous, CapacityError
from provisioner.providers.contract import Listing
from provisioner.store import actions, cooldowns, journal
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ABLE, World

I = InstanceState
TOKENLESS = replace(ABLE, client_tokens=False)


def kinds(world: World, subject_id: str) -> list[str]:
    with world.store.read() as connection:
        return [event["kind"] for event in journal.events_of(connection, subject_id)]


def open_actions(world: World) -> int:
    with world.store.read() as connection:
        return len(actions.due(connection, world.now + timedelta(days=365)))


@pytest.mark.parametrize("tokens", [True, False])
@pytest.mark.parametrize("lag_s", [0.0, 45.0])
def test_a_lost_reply_to_a_launch_makes_one_machine(
    make_world: Callable[..., World], tokens: bool, lag_s: float
) -> None:
    world = make_world(able=replace(ABLE, client_tokens=tokens, listing_lag_s=lag_s))
    world.cloud.lose_reply("launch")
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    world.tick_until(lambda: world.state(desk.id) is I.READY)
    world.tick(20, 15)
    assert world.states(desk.id) == [I.READY]
    assert len(world.machines()) == 1
    assert open_actions(world) == 0
    repeats = world.calls("launch") - 1
    assert repeats <= (1 if tokens else 0)  # which only gets the same machine again


def test_an_adopted_machine_is_journaled(world: World) -> None:
    world.cloud.lose_reply("launch")
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    world.tick(3)
    assert "instance.adopted" in kinds(world, world.row(desk.id).id)


@pytest.mark.parametrize("tokens", [True, False])
def test_a_launch_that_was_lost_on_the_way_is_sent_again(
    make_world: Callable[..., World], tokens: bool
) -> None:
    world = make_world(able=replace(ABLE, client_tokens=tokens, listing_lag_s=20.0))
    world.cloud.fail_next("launch", Ambiguous("no reply"), takes_effect=False)
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    world.tick(20, 5)
    # without tokens it is first made sure that no machine shows up: twice the lag, and a minute
    assert world.calls("launch") == (2 if tokens else 1)
    world.tick_until(lambda: world.state(desk.id) is I.READY)
    assert world.calls("launch") == 2
    assert len(world.machines()) == 1


def test_a_twin_that_comes_late_is_collected(make_world: Callable[..., World]) -> None:
    """No tokens, and a listing that lags far longer than the provider says."""
    world = make_world(able=replace(TOKENLESS, listing_lag_s=5.0))
    world.cloud.lose_reply("launch")
    job = world.submit()
    world.tick(1)
    (first,) = (machine.id for machine in world.machines())
    appears = world.now + timedelta(seconds=100)
    truth = world.cloud.list

    def lagging() -> Listing:
        shown = truth()
        late = (m for m in shown.machines if m.id != first or world.now >= appears)
        return replace(shown, machines=tuple(late))

    world.cloud.list = lagging  # type: ignore[method-assign]
    world.tick(18, 5)
    assert world.calls("launch") == len(world.machines()) == 2
    world.tick_until(lambda: world.now > appears and len(world.machines()) == 1)
    world.tick(10, 5)
    assert world.states(job) == [I.READY]
    assert [m.id for m in world.machines()] == [world.row(job).machine_id]
    assert world.row(job).machine_id != first


def test_a_new_machine_that_the_listing_does_not_show_yet_is_not_lost(
    make_world: Callable[..., World],
) -> None:
    world = make_world(able=replace(ABLE, listing_lag_s=60.0))
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    for _ in range(12):
        world.tick(1, 5)
        assert world.state(desk.id) in (I.LAUNCHING, I.BOOTING)
    world.tick_until(lambda: world.state(desk.id) is I.READY)
    assert "lost" not in {row.state for row in world.rows(desk.id)}


def test_a_launch_that_was_given_up_and_arrives_late_is_collected(
    make_world: Callable[..., World],
) -> None:
    world = make_world(able=replace(TOKENLESS, listing_lag_s=30.0))
    world.cloud.lose_reply("launch")
    job = world.submit()
    world.tick(1)
    assert len(world.machines()) == 1
    world.roost.jobs.cancel(world.admin, job)
    world.tick_until(lambda: not world.machines())
    world.tick(10, 15)
    assert all(not state.live for state in world.states(job))
    assert world.calls("launch") == 1
    assert open_actions(world) == 0


def test_the_same_launch_again_has_the_same_parameters(world: World) -> None:
    world.cloud.lose_reply("launch")
    world.cloud.lose_reply("launch")
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    # another price meanwhile would make another request of the same launch id
    world.cloud.set_price("fake/r/a/small/on-demand", world.cloud.offers()[2].price_per_hour * 2)
    world.tick_until(lambda: world.state(desk.id) is I.READY)
    assert len(world.machines()) == 1


# ---- strays


def stray(world: World) -> str:
    """A machine with our tag whose row was lost with the database's last minutes."""
    machine = world.row(world.ready_desk()).machine_id
    assert machine is not None
    request = world.cloud.request_of(machine)
    return world.cloud.launch(
        replace(request, launch_id="forgotten", volume_id=None, offer=request.offer)
    ).id


def test_a_stray_is_told_first_and_collected_after_the_grace(world: World) -> None:
    id = stray(world)
    world.deaf.add(id)
    world.tick(1)
    found_at = world.now
    assert kinds(world, "forgotten") == ["machine.stray"]
    world.tick_until(lambda: world.calls("terminate"), seconds=10)
    assert timedelta(minutes=10) <= world.now - found_at <= timedelta(minutes=10, seconds=20)
    assert "machine.collected" in kinds(world, id)
    world.tick_until(lambda: len(world.machines()) == 1)
    world.tick(10, 30)
    assert world.calls("terminate") == 1
    assert kinds(world, "forgotten") == ["machine.stray"]
    assert world.states() == [I.READY]


def test_strays_wait_for_twice_the_lag_where_that_is_longer(
    make_world: Callable[..., World],
) -> None:
    world = make_world(able=replace(ABLE, listing_lag_s=600.0))
    world.deaf.add(stray(world))
    world.tick_until(lambda: kinds(world, "forgotten"), seconds=120)
    found_at = world.now
    world.tick_until(lambda: world.calls("terminate"), seconds=120)
    assert world.now - found_at >= timedelta(seconds=1200)


# ---- cancelled on the way


@pytest.mark.parametrize("ticks", [0, 1, 5])
@pytest.mark.parametrize("lost", [False, True])
def test_what_is_cancelled_on_its_way_leaves_nothing(world: World, ticks: int, lost: bool) -> None:
    if lost:
        world.cloud.lose_reply("launch")
    job = world.submit()
    world.tick(ticks, 10)
    world.roost.jobs.cancel(world.admin, job)
    world.tick(20, 10)
    assert world.machines() == []
    assert world.job(job).state is JobState.CANCELLED
    assert all(not state.live for state in world.states(job))
    assert open_actions(world) == 0


def test_a_cancelled_launch_that_never_came_through_is_over(world: World) -> None:
    world.cloud.fail_next("launch", Ambiguous("no reply"))
    job = world.submit()
    world.tick(1)
    world.roost.jobs.cancel(world.admin, job)
    world.tick(20, 15)
    assert world.machines() == []
    assert world.states(job) == [I.TERMINATED]


def test_a_job_is_placed_again_while_its_former_machine_still_goes(world: World) -> None:
    world.cloud.fail_next("launch", CapacityError("none"))
    job = world.submit()
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    assert world.states(job) == [I.FAILED, I.READY]
    with world.store.read() as connection:
        (cooled,) = cooldowns.active(connection, world.rows(job)[0].state_since)
    assert cooled.scope == world.rows(job)[0].offer.id
