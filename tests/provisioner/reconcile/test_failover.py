"""From offer to offer until there is a machine, and never the same mistake twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from policies.world import Closure, InstanceState, JobState, Quota, QuotaUnit
from provisioner.errors import ProviderError, RefusedError
from provisioner.launches import Outcome
from provisioner.providers.contract import Leftover
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ABLE, ON_DEMAND, SPOT, World, machines_of, offer, vanish

I = InstanceState
NO_GPUS = Quota("Running On-Demand big", "fake", "r", ("big",), QuotaUnit.CPUS, 0, 0, ON_DEMAND)


def launched(world: World) -> list[str]:
    """The offers that were asked for, in order."""
    return [row.offer.id for row in world.rows()]


# ---- after a preemption


@pytest.mark.parametrize("notice_s", [0.0, 60.0], ids=["without-notice", "with-notice"])
def test_the_first_attempt_after_a_preemption_is_in_another_zone(
    world: World, notice_s: float
) -> None:
    job = world.running_job(mode=SPOT)
    first = world.row(job)
    assert first.offer.zone == "a", "the cheapest"
    at = world.cloud.reclaim(first.machine_id or "", notice_s)
    if notice_s:
        world.agent(job).notices.append({"kind": "reclaim", "deadline": at.isoformat()})
    world.tick_until(
        lambda: world.job(job).state is JobState.RUNNING and world.job(job).attempt == 2
    )
    second = world.row(job)
    assert second.offer.zone == "b"
    (why,) = [
        e.text for e in world.roost.policies.explain(world.admin, job) if "taken in" in e.text
    ][:1]
    assert "fake/r/a" in why


def test_the_zone_of_the_preemption_is_tried_again_when_nothing_else_is_there(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clouds={"fake": [offer("a", SPOT, "0.10")]})
    job = world.running_job(mode=SPOT)
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick_until(lambda: world.job(job).attempt == 2 and world.state(job) is I.READY)


def test_the_zone_of_the_preemption_follows_when_the_others_have_no_room(world: World) -> None:
    job = world.running_job(mode=SPOT)
    world.cloud.scarce.add("fake/r/b")
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick_until(lambda: world.job(job).attempt > 1 and world.state(job) is I.READY)
    assert [row.offer.zone for row in world.rows(job)] == ["a", "b", "a"]


# ---- offer after offer


def test_every_offer_within_the_price_cap_is_tried_and_none_above(
    make_world: Callable[..., World],
) -> None:
    offers = [offer(f"z{n:02}", SPOT, f"0.{n + 10}") for n in range(30)]
    world = make_world(clouds={"fake": offers})
    world.cloud.scarce.add("fake")
    job = world.submit(max_price_per_hour=Decimal("0.29"))
    world.tick(25, 0.1)
    asked = launched(world)
    assert asked == [one.id for one in offers[:20]], "each once, the cheapest first"
    world.cloud.scarce.clear()
    world.tick_until(lambda: world.state(job) is I.READY)


def test_an_unknown_error_that_may_be_about_capacity_goes_on_to_the_next_offer(
    world: World,
) -> None:
    world.cloud.fail_next("launch", ProviderError("Server.InsufficientSomethingNew"))
    job = world.submit(mode=SPOT)
    world.tick_until(lambda: world.state(job) is I.READY)
    assert [row.offer.zone for row in world.rows(job)] == ["a", "b"]


def test_each_attempt_is_a_row_that_anyone_can_read(world: World) -> None:
    world.cloud.scarce.add("fake/r/a/small/spot")
    job = world.submit(mode=SPOT)
    world.tick_until(lambda: world.state(job) is I.READY)
    page = world.roost.launches.list(world.admin, 10, None, job)
    assert [(a.offer_id, a.outcome, a.error) for a in page.items] == [
        ("fake/r/b/small/spot", Outcome.LAUNCHED, None),
        ("fake/r/a/small/spot", Outcome.FAILED, "capacity"),
    ]
    assert "no fake/r/a/small/spot" in (page.items[1].message or "")
    assert page.items[0].answered_at is not None


# ---- what is known before a call is spent


def test_a_quota_of_zero_costs_no_call(make_world: Callable[..., World]) -> None:
    big = [
        replace(offer("a", ON_DEMAND, "0.20", kind="big"), region="r"),
        offer("a", ON_DEMAND, "0.30"),
    ]
    world = make_world(clouds={"fake": big})
    world.cloud.limits.append(NO_GPUS)
    job = world.submit()
    world.tick_until(lambda: world.state(job) is I.READY)
    assert launched(world) == ["fake/r/a/small/on-demand"]
    assert world.calls("launch") == 1


def test_a_quota_that_is_used_up_is_waited_for_and_said(make_world: Callable[..., World]) -> None:
    world = make_world(clouds={"fake": [offer("a", ON_DEMAND, "0.30")]})
    world.cloud.limits.append(replace(NO_GPUS, types=("small",), limit=3.0))
    first = world.running_job("one")
    second = world.submit("two")
    world.tick(20, 10)
    assert world.calls("launch") == 1
    (last, *_) = world.roost.policies.explain(world.admin, second)
    assert "Running On-Demand big in r is 3 cpus, of which 2 are used, and this takes 2" in (
        last.text
    )
    world.roost.jobs.cancel(world.admin, first)
    world.tick_until(lambda: world.state(second) is I.READY)


def test_nothing_is_bought_from_a_provider_that_is_closed(make_world: Callable[..., World]) -> None:
    world = make_world(
        clouds={
            "fake": [offer("a", ON_DEMAND, "0.30")],
            "other": [offer("a", ON_DEMAND, "0.10", provider="other")],
        }
    )
    closed = Closure("other", "no machine there can reach http://127.0.0.1:8470", "Set public_url.")
    world.roost.market.closures_now = lambda: (closed,)
    job = world.submit()
    world.tick_until(lambda: world.state(job) is I.READY)
    assert launched(world) == ["fake/r/a/small/on-demand"]
    with pytest.raises(RefusedError, match=r"can reach http://127\.0\.0\.1:8470.*Set public_url"):
        world.submit("elsewhere", provider="other")
    with pytest.raises(RefusedError, match="Set public_url"):
        world.roost.workstations.create(world.admin, NewWorkstation("desk", provider="other"))


# ---- nothing is left


@pytest.mark.parametrize("seconds", [0, 1, 2, 20, 29, 30, 31, 35, 50])
def test_a_cancel_while_launching_leaves_nothing_busy(world: World, seconds: int) -> None:
    """At each moment from the queue to the first step."""
    job = world.submit()
    if seconds:
        world.tick(1, 1)
        world.tick(1, seconds)
    world.roost.jobs.cancel(world.admin, job)
    world.tick(12, 20)
    assert world.machines() == []
    assert all(not row.state.live for row in world.rows(job))


def test_what_a_machine_leaves_behind_is_deleted(make_world: Callable[..., World]) -> None:
    world = make_world(litters=True)
    before = world.cloud.list()
    job = world.running_job()
    assert world.cloud.list().leftovers == ()
    world.roost.jobs.cancel(world.admin, job)
    world.tick_until(lambda: not world.machines())
    assert world.cloud.list().leftovers == (Leftover("address", "addr-m-000001"),)
    world.tick(8, 120)
    after = world.cloud.list()
    assert (after.leftovers, after.volumes, after.snapshots) == (
        before.leftovers,
        before.volumes,
        before.snapshots,
    )
    assert world.calls("delete_leftover") == 1


def test_what_is_in_use_again_is_not_deleted(make_world: Callable[..., World]) -> None:
    world = make_world(litters=True)
    world.cloud._litter["x"] = Leftover("group", "g-1")
    machine = world.running_job()
    world.cloud._litter["x"] = world.cloud._litter[world.row(machine).machine_id or ""]
    world.tick(8, 120)
    assert world.calls("delete_leftover") == 0


# ---- what the provider says


def test_a_change_in_the_providers_console_is_mirrored_within_one_tick(world: World) -> None:
    desk = world.ready_desk()
    machine = world.row(desk).machine_id or ""
    world.cloud.stop(machine)
    world.tick(1, 30)
    assert world.state(desk) is I.STARTING, "it was seen to be stopped, and its person wants it on"
    job = world.running_job()
    world.cloud.terminate(world.row(job).machine_id or "")
    world.tick(1, 30)
    assert world.states(job)[0] is I.TERMINATED


def test_terminated_is_said_only_when_the_provider_says_so(world: World) -> None:
    job = world.running_job()
    machine = world.row(job).machine_id or ""
    for _ in range(5):
        world.cloud.fail_next("terminate", ProviderError("internal error"))
    world.roost.jobs.cancel(world.admin, job)
    world.tick(6, 2)
    assert world.state(job) is I.TERMINATING
    assert [m.id for m in machines_of(world.cloud)] == [machine]
    world.tick_until(lambda: world.state(job) is I.TERMINATED)
    assert world.machines() == []


def test_a_region_that_does_not_answer_loses_nothing(make_world: Callable[..., World]) -> None:
    east = replace(offer("e", ON_DEMAND, "0.10"), id="fake/east/e/small/on-demand", region="east")
    world = make_world(clouds={"fake": [east, offer("a", ON_DEMAND, "0.30")]})
    job = world.running_job()
    assert world.row(job).offer.region == "east"
    world.cloud.silent.add("east")
    world.tick(20, 10)
    assert (world.state(job), world.job(job).state) == (I.READY, JobState.RUNNING)
    (status,) = world.roost.status().providers
    assert status.message == "no answer from east"
    vanish(world.cloud, world.row(job).machine_id or "")
    world.deaf.add("fake")
    world.cloud.silent.clear()
    world.tick_until(lambda: world.states(job)[0] is I.TERMINATED)


def test_a_notice_by_the_provider_alone_drains_the_machine(
    make_world: Callable[..., World],
) -> None:
    world = make_world()
    job = world.running_job(mode=SPOT)
    at = world.cloud.reclaim(world.row(job).machine_id or "", notice_s=120)
    world.tick(2, 1)
    row = world.rows(job)[0]
    assert row.notice_deadline == at
    assert row.state is I.DRAINING


def test_a_volume_keeps_its_machine_in_its_zone(make_world: Callable[..., World]) -> None:
    world = make_world(zoned=True)
    desk = world.ready_desk()
    assert world.row(desk).offer.zone == "a"
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    world.cloud.terminate(world.row(desk).machine_id or "")
    world.cloud.scarce.add("fake/r/a")
    world.tick(5, 10)
    world.roost.workstations.start(world.admin, desk)
    world.tick(20, 20)
    assert {row.offer.zone for row in world.rows(desk)} == {"a"}, "no other can attach its home"
    world.cloud.scarce.clear()
    world.tick_until(lambda: world.state(desk) is I.READY)


# ---- a provider that chooses itself


def test_a_provider_that_chooses_gets_alternatives_and_its_choice_is_what_is_paid(
    make_world: Callable[..., World],
) -> None:
    offers = [
        offer("a", SPOT, "0.10"),
        offer("b", SPOT, "0.11"),
        offer("c", SPOT, "0.90"),
        offer("a", ON_DEMAND, "0.11"),
    ]
    world = make_world(clouds={"fake": offers}, able=replace(ABLE, alternatives=True))
    world.cloud.scarce.add("fake/r/a/small/spot")
    job = world.running_job(mode=SPOT)
    row = world.row(job)
    assert [one.id for one in row.alternatives] == ["fake/r/b/small/spot"]
    assert row.offer.id == "fake/r/b/small/spot"
    assert row.offer.price_per_hour == Decimal("0.11")
    world.tick(30, 60)
    world.roost.jobs.cancel(world.admin, job)
    world.tick_until(lambda: not world.machines())
    cost = world.roost.jobs.get(world.admin, job).cost
    assert cost == round(world.bill(), 12) > 0


def test_listings_keep_the_pace_that_the_provider_asks_for(
    make_world: Callable[..., World],
) -> None:
    world = make_world(able=replace(ABLE, list_every_s=60.0, offers_every_s=600.0))
    world.tick(120, 10)
    span = timedelta(seconds=1200)
    assert world.calls("list") == span / timedelta(seconds=60)
    assert world.calls("offers") == 1 + span / timedelta(seconds=600)
