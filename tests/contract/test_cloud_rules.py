"""The rules P13 to P20, about what clouds can do; who cannot do it must say so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from policies.world import PurchaseMode
from provisioner.errors import Ambiguous, CapacityError, InvalidRequest, QuotaError
from provisioner.providers.contract import EndReason, MachineState, NoticeKind
from tests.contract.bench import Bench

S = MachineState
SPOT = PurchaseMode.SPOT
YEAR = timedelta(days=365)


def stopped(bench: Bench, **changes: object) -> str:
    """The id of a machine that is stopped."""
    machine = bench.launch(**changes)
    bench.provider.stop(machine.id)
    bench.pass_until_state(machine.id, S.STOPPED)
    return machine.id


def test_p10_hibernation_is_refused_or_stops_the_machine(bench: Bench) -> None:
    machine = bench.launch()
    if not bench.provider.capabilities.hibernate:
        with pytest.raises(InvalidRequest):
            bench.provider.hibernate(machine.id)
        assert bench.machine(machine.id).state is S.RUNNING
        return
    bench.provider.hibernate(machine.id)
    bench.pass_until_state(machine.id, S.STOPPED)
    bench.provider.hibernate(machine.id)
    bench.provider.start(machine.id)
    assert bench.pass_until_state(machine.id, S.RUNNING).id == machine.id


def test_p13_a_stopped_machine_becomes_another_offer_with_the_same_disks(bench: Bench) -> None:
    machine_id = stopped(bench, volume_id="v")
    before = bench.request().offer
    after = bench.another(before)
    if not bench.provider.capabilities.resize_in_place:
        with pytest.raises(InvalidRequest):
            bench.provider.resize(machine_id, after)
        return
    bench.provider.resize(machine_id, after)
    bench.provider.resize(machine_id, after)
    assert bench.machine(machine_id).offer_id == after.id
    assert bench.machine(machine_id).state is S.STOPPED
    bench.provider.start(machine_id)
    assert bench.pass_until_state(machine_id, S.RUNNING).offer_id == after.id
    (volume,) = bench.provider.list().volumes
    assert volume.attached_to == machine_id


def test_p13_a_resized_machine_costs_what_it_is_now(bench: Bench) -> None:
    if not bench.provider.capabilities.resize_in_place:
        return
    first = bench.launch()
    bench.provider.stop(first.id)
    stood = bench.pass_until_state(first.id, S.STOPPED)
    before = bench.request().offer
    after = bench.another(before)
    bench.provider.resize(first.id, after)
    bench.provider.start(first.id)
    bench.pass_until_state(first.id, S.RUNNING)
    ended = bench.end(first.id)
    runs = (
        (before.price_per_hour, first.run_started_at, stood.run_ended_at),
        (after.price_per_hour, ended.run_started_at, ended.run_ended_at),
    )
    cost = Decimal(0)
    for price, start, end in runs:
        assert start is not None
        assert end is not None
        cost += price * Decimal((end - start).total_seconds()) / 3600
    bill = bench.bill(bench.clock.now() - YEAR, bench.clock.now() + YEAR)
    assert abs(bill[first.id] - cost) < Decimal("1e-9")


def test_p13_what_is_not_stopped_or_not_alike_stays_as_it_is(bench: Bench) -> None:
    machine = bench.launch()
    other = bench.another(bench.request().offer)
    with pytest.raises(InvalidRequest):
        bench.provider.resize(machine.id, other)
    bench.provider.stop(machine.id)
    bench.pass_until_state(machine.id, S.STOPPED)
    with pytest.raises(InvalidRequest):
        bench.provider.resize(machine.id, bench.another(bench.request(mode=SPOT).offer))
    assert bench.machine(machine.id).offer_id == bench.request().offer.id


def test_p14_a_volume_binds_its_machines_to_its_zone(bench: Bench) -> None:
    machine = bench.launch(volume_id="v")
    offer = bench.request().offer
    (volume,) = bench.provider.list().volumes
    assert volume.zone in (None, offer.zone)
    bench.end(machine.id)
    if volume.zone is None:
        return
    elsewhere = next(one for one in bench.offers() if one.zone != offer.zone)
    with pytest.raises(InvalidRequest):
        bench.provider.launch(bench.request("two", offer=elsewhere, volume_id="v"))
    assert bench.provider.launch(bench.request("three", volume_id="v")).offer_id == offer.id


def test_p14_a_snapshot_outlives_its_volume_and_makes_another(bench: Bench) -> None:
    provider = bench.provider
    machine = bench.launch(volume_id="v", volume_gib=5)
    if not provider.capabilities.snapshots:
        with pytest.raises(InvalidRequest):
            provider.snapshot("v", "s")
        with pytest.raises(InvalidRequest):
            provider.delete_snapshot("s")
        return
    bench.pass_until(lambda: provider.list().volumes)
    taken = provider.snapshot("v", "s")
    assert (taken.id, taken.volume_id, taken.gib) == ("s", "v", 5)
    assert provider.snapshot("v", "s").id == "s"
    bench.end(machine.id)
    provider.delete_volume("v")
    assert provider.list().volumes == ()
    bench.pass_until(lambda: all(one.complete for one in provider.list().snapshots))
    assert [one.id for one in provider.list().snapshots] == ["s"]
    second = bench.launch("two", volume_id="w", volume_gib=5, volume_from="s")
    assert [one.id for one in provider.list().volumes] == ["w"]
    with pytest.raises(InvalidRequest):
        provider.snapshot("w", "s")
    bench.end(second.id)
    provider.delete_snapshot("s")
    provider.delete_snapshot("s")
    assert provider.list().snapshots == ()


def test_p14_a_snapshot_that_is_not_there_makes_nothing(bench: Bench) -> None:
    if not bench.provider.capabilities.snapshots:
        return
    with pytest.raises(InvalidRequest):
        bench.provider.launch(bench.request(volume_id="v", volume_from="nothing"))
    with pytest.raises(InvalidRequest):
        bench.provider.snapshot("nothing", "s")
    assert bench.provider.list().machines == ()
    assert bench.provider.list().volumes == ()


def test_p15_after_the_last_machine_the_account_is_as_before(bench: Bench) -> None:
    if bench.inventory is None:
        pytest.skip("this provider has no account to be looked into")
    provider, before = bench.provider, bench.inventory()
    spot = bench.offers(SPOT)
    machines = [
        bench.launch("one", volume_id="v"),
        bench.launch("two", mode=SPOT, alternatives=tuple(spot[:3])),
    ]
    assert bench.inventory() != before
    for machine in machines:
        bench.end(machine.id)
    provider.delete_volume("v")
    for leftover in provider.list().leftovers:
        provider.delete_leftover(leftover)
        provider.delete_leftover(leftover)
    assert provider.list().leftovers == ()
    assert bench.inventory() == before


def test_p15_what_is_needed_again_is_not_deleted(bench: Bench) -> None:
    bench.end(bench.launch("one").id)
    left = bench.provider.list().leftovers
    second = bench.launch("two")
    for leftover in left:
        bench.provider.delete_leftover(leftover)
    assert bench.machine(second.id).state is S.RUNNING
    bench.launch("three")


def test_p16_a_quota_is_told_before_it_is_met(bench: Bench) -> None:
    if bench.limit is None:
        assert bench.provider.quotas() == ()
        return
    request = bench.request()
    bench.limit(request.offer.resources.cpus)
    (quota,) = [one for one in bench.provider.quotas() if one.needed(request.offer)]
    assert (quota.limit, quota.used) == (request.offer.resources.cpus, 0)
    machine = bench.launch()
    (quota,) = [one for one in bench.provider.quotas() if one.needed(request.offer)]
    assert quota.used == quota.limit
    with pytest.raises(QuotaError):
        bench.provider.launch(bench.request("two"))
    bench.end(machine.id)
    bench.launch("three")


def test_p17_a_silent_region_is_named_and_says_nothing(bench: Bench) -> None:
    assert bench.provider.list().silent_regions == frozenset()
    if bench.silence is None:
        pytest.skip("this provider has no regions")
    bench.launch()
    provider, region = bench.silence()
    listing = provider.list()
    assert listing.silent_regions == {region}
    assert listing.machines == ()


@pytest.mark.parametrize("call", ["stop", "terminate"])
def test_p18_a_change_without_an_answer_is_ambiguous(bench: Bench, call: str) -> None:
    if bench.lose_reply is None:
        pytest.skip("this provider's answers cannot be lost")
    machine = bench.launch()
    bench.lose_reply(call)
    with pytest.raises(Ambiguous):
        getattr(bench.provider, call)(machine.id)
    goal = {"stop": S.STOPPED, "terminate": S.TERMINATED}[call]
    bench.pass_until_state(machine.id, goal)
    getattr(bench.provider, call)(machine.id)


@pytest.mark.parametrize("mode", [PurchaseMode.ON_DEMAND, SPOT])
def test_p18_a_launch_without_an_answer_can_be_asked_again(
    bench: Bench, mode: PurchaseMode
) -> None:
    if bench.lose_reply is None:
        pytest.skip("this provider's answers cannot be lost")
    request = bench.request(mode=mode, volume_id="v")
    bench.lose_reply("launch")
    with pytest.raises(Ambiguous):
        bench.provider.launch(request)
    machine = bench.provider.launch(request)
    assert [one.id for one in bench.provider.list().machines] == [machine.id]


def test_p19_a_notice_comes_before_the_end(bench: Bench) -> None:
    assert list(bench.provider.notices()) == []
    if bench.reclaim is None:
        pytest.skip("this provider's machines are not taken on order")
    machine = bench.launch(mode=SPOT)
    at = bench.reclaim(machine.id)
    notices = list(bench.provider.notices())
    assert [(one.machine_id, one.kind) for one in notices] == [(machine.id, NoticeKind.RECLAIM)]
    assert notices[0].deadline == at
    assert bench.machine(machine.id).state is S.RUNNING
    bench.pass_until(lambda: bench.clock.now() >= at)
    ended = bench.pass_until_state(machine.id, S.TERMINATED)
    assert ended.end_reason is EndReason.RECLAIMED
    assert ended.run_ended_at == at


def test_p20_an_alternative_is_made_where_the_first_offer_is_exhausted(bench: Bench) -> None:
    if bench.exhaust is None:
        pytest.skip("this provider's capacity cannot be exhausted on order")
    offers = bench.offers(SPOT)
    first, others = offers[0], tuple(offers[1:3])
    bench.exhaust(first)
    request = replace(bench.request(mode=SPOT), offer=first, alternatives=others)
    if not bench.provider.capabilities.alternatives:
        with pytest.raises(CapacityError):
            bench.provider.launch(request)
        return
    machine = bench.provider.launch(request)
    assert machine.offer_id in {one.id for one in others}
    assert bench.provider.launch(request).id == machine.id
    assert bench.pass_until_state(machine.id, S.RUNNING).offer_id == machine.offer_id


def test_p20_other_alternatives_under_the_same_id_are_refused(bench: Bench) -> None:
    if not bench.provider.capabilities.alternatives:
        return
    offers = tuple(bench.offers(SPOT)[:3])
    request = replace(bench.request(mode=SPOT), offer=offers[0], alternatives=offers[1:])
    bench.provider.launch(request)
    with pytest.raises(InvalidRequest):
        bench.provider.launch(replace(request, alternatives=offers[2:]))
    assert len(bench.provider.list().machines) == 1
