"""The provider contract, rule by rule; every provider passes the same tests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from policies.world import PurchaseMode
from provisioner.errors import InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import EndReason, MachineState
from tests.contract.bench import Bench

S = MachineState
YEAR = timedelta(days=365)
EXACT = Decimal("1e-20")


def test_p1_a_repeated_launch_gives_the_same_machine(bench: Bench) -> None:
    first = bench.provider.launch(bench.request())
    bench.pass_until_state(first.id, S.RUNNING)
    again = bench.provider.launch(bench.request())
    assert again.id == first.id
    assert again.state is S.RUNNING
    assert len(bench.provider.list().machines) == 1


def test_p1_a_launch_repeated_after_the_end_makes_no_second_machine(bench: Bench) -> None:
    first = bench.provider.launch(bench.request())
    bench.provider.terminate(first.id)
    bench.pass_until_state(first.id, S.TERMINATED)
    assert bench.provider.launch(bench.request()).state is S.TERMINATED


@pytest.mark.parametrize(
    "changes",
    [{"user_data": "#!/bin/sh\n"}, {"tags": ()}, {"volume_id": "v"}],
    ids=["user-data", "tags", "volume"],
)
def test_p1_other_parameters_under_the_same_id_are_refused(
    bench: Bench, changes: dict[str, object]
) -> None:
    bench.provider.launch(bench.request())
    with pytest.raises(InvalidRequest):
        bench.provider.launch(bench.request(**changes))  # type: ignore[arg-type]
    assert len(bench.provider.list().machines) == 1


def test_p2_a_machine_carries_its_tags_from_the_first_listing_on(bench: Bench) -> None:
    bench.provider.launch(bench.request())
    (listed,) = bench.provider.list().machines
    assert listed.launch_id == "one"
    assert listed.tags == (("job", "j1"),)
    assert listed.offer_id == bench.request().offer.id


def test_p3_ended_machines_stay_visible(bench: Bench) -> None:
    machine = bench.provider.launch(bench.request())
    bench.provider.terminate(machine.id)
    ended = bench.pass_until_state(machine.id, S.TERMINATED)
    assert ended.end_reason is EndReason.ASKED
    assert bench.machine(machine.id) == ended


def test_p3_another_installation_is_not_seen(bench: Bench) -> None:
    if bench.other_installation is None:
        pytest.skip("this provider holds one installation only")
    machine = bench.provider.launch(bench.request(volume_id="v"))
    assert bench.other_installation.list().machines == ()
    assert bench.other_installation.list().volumes == ()
    with pytest.raises(NotFound):
        bench.other_installation.terminate(machine.id)


def test_p4_terminated_costs_nothing_any_more(bench: Bench) -> None:
    machine = bench.provider.launch(bench.request())
    bench.pass_until_state(machine.id, S.RUNNING)
    bench.provider.terminate(machine.id)
    bench.pass_until_state(machine.id, S.TERMINATED)
    start, end = bench.clock.now() - YEAR, bench.clock.now() + YEAR
    bill = bench.bill(start, end)
    later = bench.clock.now() + timedelta(seconds=0.2)
    bench.pass_until(lambda: bench.clock.now() > later)
    assert bench.bill(start, end) == bill
    assert bill[machine.id] > 0


@pytest.mark.parametrize("call", ["terminate", "stop", "start"])
def test_p5_an_unknown_machine_is_not_found(bench: Bench, call: str) -> None:
    with pytest.raises(NotFound):
        getattr(bench.provider, call)("nobody")


def test_p5_stop_start_and_terminate_are_idempotent(bench: Bench) -> None:
    provider, machine = bench.provider, bench.provider.launch(bench.request())
    bench.pass_until_state(machine.id, S.RUNNING)
    calls: list[tuple[Callable[[str], None], MachineState]] = [
        (provider.stop, S.STOPPED),
        (provider.start, S.RUNNING),
        (provider.terminate, S.TERMINATED),
    ]
    for call, state in calls:
        call(machine.id)
        if call != provider.start:
            call(machine.id)  # on the way
        bench.pass_until_state(machine.id, state)
        call(machine.id)  # arrived
        assert bench.machine(machine.id).state is state


def test_p5_what_has_ended_cannot_start_again(bench: Bench) -> None:
    machine = bench.provider.launch(bench.request())
    bench.provider.terminate(machine.id)
    bench.pass_until_state(machine.id, S.TERMINATED)
    with pytest.raises(InvalidRequest):
        bench.provider.start(machine.id)
    with pytest.raises(InvalidRequest):
        bench.provider.stop(machine.id)


def test_p6_a_volume_has_one_machine_at_a_time_and_outlives_it(bench: Bench) -> None:
    provider = bench.provider
    first = provider.launch(bench.request("one", volume_id="v", volume_gib=5))
    (volume,) = provider.list().volumes
    assert (volume.id, volume.gib, volume.attached_to) == ("v", 5, first.id)
    with pytest.raises(ProviderError):
        provider.launch(bench.request("two", volume_id="v"))
    with pytest.raises(ProviderError):
        provider.delete_volume("v")
    provider.terminate(first.id)
    bench.pass_until_state(first.id, S.TERMINATED)
    assert provider.list().volumes[0].attached_to is None
    second = provider.launch(bench.request("two", volume_id="v"))
    assert provider.list().volumes[0].attached_to == second.id
    provider.terminate(second.id)
    bench.pass_until_state(second.id, S.TERMINATED)
    provider.delete_volume("v")
    provider.delete_volume("v")
    assert provider.list().volumes == ()


@pytest.mark.parametrize("bad", ["../x", "", "a/b", "x" * 200, "."])
def test_p7_senseless_ids_raise_provider_errors_only(bench: Bench, bad: str) -> None:
    for call in (bench.provider.terminate, bench.provider.stop, bench.provider.start):
        with pytest.raises(ProviderError):
            call(bad)


def test_p7_an_offer_that_is_not_sold_is_refused(bench: Bench) -> None:
    request = bench.request()
    unknown = replace(request.offer, id=request.offer.id + "x")
    with pytest.raises(InvalidRequest):
        bench.provider.launch(replace(request, offer=unknown))
    assert bench.provider.list().machines == ()


def test_p8_calls_return_before_the_transition_is_over(bench: Bench) -> None:
    machine = bench.provider.launch(
        bench.request(user_data="#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n")
    )
    bench.pass_until_state(machine.id, S.RUNNING)
    bench.provider.stop(machine.id)
    assert bench.machine(machine.id).state is S.STOPPING
    bench.pass_until_state(machine.id, S.STOPPED)
    bench.provider.start(machine.id)
    bench.pass_until_state(machine.id, S.RUNNING)
    bench.provider.terminate(machine.id)
    assert bench.machine(machine.id).state is S.TERMINATING
    bench.pass_until_state(machine.id, S.TERMINATED)


def test_p9_run_times_are_those_of_the_bill(bench: Bench) -> None:
    before = bench.clock.now()
    machine = bench.provider.launch(bench.request())
    first = bench.pass_until_state(machine.id, S.RUNNING)
    assert first.run_started_at is not None
    assert before <= first.run_started_at <= bench.clock.now()
    assert first.run_ended_at is None
    bench.provider.stop(machine.id)
    stopped = bench.pass_until_state(machine.id, S.STOPPED)
    assert stopped.run_ended_at is not None
    bench.provider.start(machine.id)
    second = bench.pass_until_state(machine.id, S.RUNNING)
    assert second.run_started_at is not None
    assert second.run_started_at >= stopped.run_ended_at
    assert second.run_ended_at is None
    bench.provider.terminate(machine.id)
    ended = bench.pass_until_state(machine.id, S.TERMINATED)
    assert ended.run_ended_at is not None
    ran = (stopped.run_ended_at - first.run_started_at) + (
        ended.run_ended_at - second.run_started_at
    )
    microseconds = ran // timedelta(microseconds=1)
    price = bench.request().offer.price_per_hour
    bill = bench.bill(before - YEAR, before + YEAR)
    assert bill.keys() == {machine.id}
    assert abs(bill[machine.id] - price * microseconds / Decimal(3_600_000_000)) < EXACT


def test_p10_what_is_not_supported_is_refused(bench: Bench) -> None:
    assert not bench.provider.capabilities.stop_of_spot
    machine = bench.provider.launch(bench.request(mode=PurchaseMode.SPOT))
    bench.pass_until_state(machine.id, S.RUNNING)
    with pytest.raises(InvalidRequest):
        bench.provider.stop(machine.id)
    with pytest.raises(InvalidRequest):
        bench.provider.start(machine.id)
    assert bench.machine(machine.id).state is S.RUNNING


def test_p11_calls_from_several_threads_at_once(bench: Bench) -> None:
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: bench.provider.launch(bench.request("same")).id, range(20)))
        others = list(
            pool.map(lambda n: bench.provider.launch(bench.request(f"m{n}")).id, range(4))
        )
        listings = list(pool.map(lambda _: bench.provider.list(), range(8)))
        list(pool.map(lambda _: bench.provider.terminate(same[0]), range(8)))
    assert len(set(same)) == 1
    assert len(set(others)) == 4
    assert all(len(listing.machines) == 5 for listing in listings)
    bench.pass_until_state(same[0], S.TERMINATED)


@pytest.mark.parametrize("mode", [PurchaseMode.ON_DEMAND, PurchaseMode.SPOT])
def test_p12_prices_cover_the_span_and_agree_with_the_offer(
    bench: Bench, mode: PurchaseMode
) -> None:
    offer = bench.request(mode=mode).offer
    now = bench.clock.now()
    start, end = now - timedelta(hours=30), now + timedelta(microseconds=1)
    points = bench.provider.prices(offer.instance_type, offer.zone, mode, start, end)
    assert points[0].at <= start
    assert [point.at for point in points] == sorted(point.at for point in points)
    assert points[-1].at < end
    assert points[-1].price == offer.price_per_hour
    assert {point.currency for point in points} == {offer.currency}


def test_p12_the_price_of_storage_is_known(bench: Bench) -> None:
    bench.provider.launch(bench.request(volume_id="v"))
    point = bench.provider.rates().volume_gib_month
    assert point is not None
    assert point.at <= bench.clock.now()
    assert (point.price > 0, point.currency) == (True, bench.request().offer.currency)
