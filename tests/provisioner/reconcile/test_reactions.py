"""What is done about each error of a provider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from policies.world import InstanceState, JobState
from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.reconcile.reactions import Reaction, Scope, cooled_scope, retry_delay, rule_for
from provisioner.store import cooldowns, journal
from provisioner.workstations.phase import Phase
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ABLE, ON_DEMAND, SPOT, START, World, offer

I = InstanceState


def cooled(world: World, at: datetime | None = None) -> dict[str, float]:
    """Seconds left of each cooldown."""
    now = at or world.now
    with world.store.read() as connection:
        active = cooldowns.active(connection, now)
    return {c.scope: (c.until - now).total_seconds() for c in active}


def launches(world: World) -> list[datetime]:
    return [at for at, call, _ in world.cloud.calls if call == "launch"]


# ---- the table


@pytest.mark.parametrize(
    ("error", "reaction", "scope", "tell"),
    [
        (CapacityError("x"), Reaction.NEXT_OFFER, Scope.OFFER, False),
        (QuotaError("x"), Reaction.NEXT_OFFER, Scope.TYPE, True),
        (ThrottledError("x"), Reaction.RETRY, Scope.NONE, False),
        (AuthError("x"), Reaction.NEXT_OFFER, Scope.PROVIDER, True),
        (InvalidRequest("x"), Reaction.GIVE_UP, Scope.NONE, False),
        (NotFound("x"), Reaction.GONE, Scope.NONE, False),
        (Ambiguous("x"), Reaction.LOOK_FIRST, Scope.NONE, False),
        (ProviderError("x"), Reaction.NEXT_OFFER, Scope.OFFER, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_error_has_one_reaction(
    error: ProviderError, reaction: Reaction, scope: Scope, tell: bool
) -> None:
    rule = rule_for(error)
    assert (rule.reaction, rule.cools, rule.tell) == (reaction, scope, tell)


def test_an_error_of_a_kind_of_its_own_is_treated_as_its_base() -> None:
    class NoGpuError(CapacityError):
        pass

    assert rule_for(NoGpuError("x")) == rule_for(CapacityError("x"))


def test_retries_wait_longer_each_time_up_to_two_minutes_or_as_told() -> None:
    assert [retry_delay(n).total_seconds() for n in (0, 1, 2, 5, 6, 50)] == [2, 4, 8, 64, 120, 120]
    assert retry_delay(0, advice_s=45).total_seconds() == 45
    assert retry_delay(6, advice_s=45).total_seconds() == 120


def test_what_each_scope_cools() -> None:
    id = "fake/r/a/small/spot"
    found = {scope: cooled_scope(scope, id) for scope in Scope}
    assert found == {
        Scope.NONE: None,
        Scope.OFFER: id,
        Scope.TYPE: "fake/r/*/small/spot",
        Scope.PROVIDER: "fake",
    }


# ---- launches


def test_without_capacity_the_next_offer_is_tried_at_once(world: World) -> None:
    world.cloud.scarce.add("fake/r/a/small/spot")
    job = world.submit(mode=SPOT)
    world.tick(2)
    assert [row.offer.zone for row in world.rows(job)] == ["a", "b"]
    assert world.states(job)[0] is I.FAILED
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    assert len(world.rows(job)) == 2


def test_an_offer_that_keeps_failing_is_left_alone_for_twice_as_long_each_time(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clouds={"fake": [offer("a", ON_DEMAND)]})
    world.cloud.scarce.add("fake")
    rule = rule_for(CapacityError("x"))
    base, longest = rule.for_.total_seconds(), rule.longest.total_seconds()
    world.submit()
    world.tick(80, 5)
    gaps = [(b - a).total_seconds() for a, b in pairwise(launches(world))]
    expected = [min(base * 2**n, longest) for n in range(len(gaps))]
    assert len(gaps) >= 5
    assert gaps == pytest.approx(expected, abs=5)


def test_a_success_ends_the_doubling(make_world: Callable[..., World]) -> None:
    world = make_world(clouds={"fake": [offer("a", ON_DEMAND)]})
    world.cloud.scarce.add("fake")
    first = world.submit()
    world.tick_until(lambda: len(launches(world)) == 3)
    world.cloud.scarce.clear()
    world.tick_until(lambda: world.job(first).state is JobState.RUNNING)
    assert cooled(world) == {}
    world.cloud.scarce.add("fake")
    world.submit("second")
    world.tick(1)
    assert cooled(world) == {
        "fake/r/a/small/on-demand": rule_for(CapacityError("x")).for_.total_seconds()
    }


def test_a_quota_cools_its_type_in_all_zones_and_is_told(make_world: Callable[..., World]) -> None:
    here, beside = offer("a", ON_DEMAND), offer("b", ON_DEMAND, "0.8")
    other = offer("a", ON_DEMAND, "0.9", kind="other")
    world = make_world(clouds={"fake": [here, beside, other]})
    world.cloud.fail_next("launch", QuotaError("16 vCPUs"))
    job = world.submit()
    world.tick(1)
    assert cooled(world) == {"fake/r/*/small/on-demand": 600}
    with world.store.read() as connection:
        events = journal.events_of(connection, world.row(job).id)
    (told,) = (e["body"] for e in events if e["kind"] == "action.failed")
    assert (told["tell"], told["message"]) == (True, "16 vCPUs")
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    assert [row.offer.instance_type for row in world.rows(job)] == ["small", "other"]


def test_wrong_credentials_cool_the_whole_provider(make_world: Callable[..., World]) -> None:
    world = make_world(
        clouds={
            "fake": [offer("a", ON_DEMAND, "0.1")],
            "other": [offer("a", ON_DEMAND, "0.9", provider="other")],
        }
    )
    world.cloud.fail_next("launch", AuthError("expired"))
    job = world.submit()
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    assert world.row(job).provider == "other"
    assert "fake" in cooled(world, START + timedelta(seconds=60))


def test_a_throttled_launch_waits_as_long_as_it_is_told(world: World) -> None:
    world.cloud.fail_next("launch", ThrottledError("slowly", retry_after_s=40))
    job = world.submit()
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING, seconds=1)
    first, second = launches(world)
    assert 40 <= (second - first).total_seconds() <= 41
    assert len(world.rows(job)) == 1
    assert cooled(world, START + timedelta(seconds=5)) == {}


def test_a_launch_that_is_throttled_for_ever_is_given_up(make_world: Callable[..., World]) -> None:
    world = make_world()
    for _ in range(20):
        world.cloud.fail_next("launch", ThrottledError("slowly"))
    job = world.submit()
    world.tick_until(lambda: len(world.rows(job)) == 2)
    assert world.rows(job)[0].state is I.TERMINATED
    assert world.now - START > timedelta(seconds=300)
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING, seconds=20)
    assert len(world.machines()) == 1


def test_an_invalid_launch_fails_the_job_with_the_providers_words(either: World) -> None:
    world = either
    world.cloud.fail_next("launch", InvalidRequest("no such image"))
    job = world.submit()
    world.tick(5)
    view = world.roost.jobs.get(world.admin, job)
    assert (view.state, view.reason) == (JobState.FAILED, "invalid-request")
    assert view.message == "no such image"
    assert view.attempts[0].state == "failed"
    assert world.calls("launch") == 1


def test_an_invalid_launch_breaks_the_workstation_and_does_not_loop(either: World) -> None:
    world = either
    for _ in range(100):
        world.cloud.fail_next("launch", InvalidRequest("no such image"))
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    world.tick(20, 90)
    assert world.calls("launch") == 1
    view = world.roost.workstations.get(world.admin, desk)
    assert (view.phase, view.reason) == (Phase.BROKEN, "no such image")
    world.tick(25, 90)
    assert world.calls("launch") == 2, "somebody may have mended it: once an hour"


def test_a_person_who_starts_a_broken_workstation_has_it_tried_at_once(world: World) -> None:
    world.cloud.fail_next("launch", InvalidRequest("no such image"))
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    world.tick(3)
    assert world.roost.workstations.get(world.admin, desk).phase is Phase.BROKEN
    world.roost.workstations.start(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert world.roost.workstations.get(world.admin, desk).phase is Phase.READY


@pytest.mark.parametrize("end", ["stop", "delete"])
def test_a_broken_workstation_can_be_stopped_and_deleted(world: World, end: str) -> None:
    world.cloud.fail_next("launch", InvalidRequest("no such image"))
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    world.tick(3)
    getattr(world.roost.workstations, end)(world.admin, desk)
    world.tick(5)
    view = world.roost.workstations.get(world.admin, desk)
    assert view.phase is {"stop": Phase.OFF, "delete": Phase.GONE}[end]
    assert (view.deleted_at is not None) == (end == "delete")


def test_any_other_error_of_a_provider_tries_elsewhere(world: World) -> None:
    world.cloud.fail_next("launch", ProviderError("internal error"))
    job = world.submit()
    world.tick_until(lambda: world.job(job).state is JobState.RUNNING)
    assert world.states(job) == [I.FAILED, I.READY]
    assert world.rows(job)[0].message == "internal error"


# ---- stop, start, terminate


@pytest.mark.parametrize(
    "error", [ThrottledError("slowly", retry_after_s=30), Ambiguous("no reply"), AuthError("x")]
)
def test_a_terminate_is_repeated_until_it_has_worked(world: World, error: ProviderError) -> None:
    job = world.running_job()
    for _ in range(3):
        world.cloud.fail_next("terminate", error)
    world.roost.jobs.cancel(world.admin, job)
    world.tick_until(lambda: not world.machines())
    world.tick(2)
    assert world.states(job) == [I.TERMINATED]
    assert world.calls("terminate") == 4


def test_a_stop_whose_reply_was_lost_is_seen_in_the_listing(world: World) -> None:
    desk = world.ready_desk()
    world.cloud.lose_reply("stop")
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    world.roost.workstations.start(world.admin, desk)
    world.cloud.lose_reply("start")
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert len(world.rows(desk)) == 1


@pytest.mark.parametrize("call", ["stop", "start"])
def test_what_can_be_neither_stopped_nor_started_is_terminated(world: World, call: str) -> None:
    desk = world.ready_desk()
    if call == "start":
        world.roost.workstations.stop(world.admin, desk)
        world.tick_until(lambda: world.state(desk) is I.STOPPED)
    for _ in range(50):
        world.cloud.fail_next(call, InvalidRequest("not this one"))
    getattr(world.roost.workstations, call)(world.admin, desk)
    world.tick_until(lambda: world.states(desk)[0] is I.TERMINATED)
    assert world.calls(call) == 1
    assert world.cloud.list().volumes, "the home stays"
    world.tick(20, 5)
    assert world.state(desk) is (I.READY if call == "start" else I.TERMINATED)


def test_a_stopped_machine_that_cannot_start_for_want_of_capacity_is_replaced(
    world: World,
) -> None:
    desk = world.ready_desk()
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    for _ in range(50):
        world.cloud.fail_next("start", CapacityError("none"))
    world.roost.workstations.start(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.READY)
    assert world.states(desk) == [I.TERMINATED, I.READY]
    assert len({row.volume_id for row in world.rows(desk)}) == 1


def test_a_machine_that_is_gone_when_it_is_to_be_terminated_has_ended(world: World) -> None:
    job = world.running_job()
    world.cloud.forget(world.row(job).machine_id or "")
    world.roost.jobs.cancel(world.admin, job)
    world.tick_until(lambda: world.state(job) is I.TERMINATED)
    assert world.row(job).reason in ("gone", "lost")


def test_providers_that_do_less_are_asked_for_no_more(make_world: Callable[..., World]) -> None:
    able = replace(ABLE, stop=False, client_tokens=False)
    plain = [replace(offer("a", ON_DEMAND), can_stop=False)]
    world = make_world(clouds={"fake": plain}, able=able)
    desk = world.ready_desk()
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.TERMINATED)
    assert world.calls("stop") == 0
