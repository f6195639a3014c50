"""One launch id, one machine (P1, P2, P7), on a cloud that has no tokens."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import Ambiguous, CapacityError, InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud.launch import machine_name
from provisioner.providers.libcloud.provider import LibcloudProvider
from tests.provisioner.providers.libcloud.conftest import machine, offer, request
from tests.provisioner.providers.libcloud.paper_cloud import Sheet, settings

S = MachineState


def test_a_repeated_launch_gives_the_same_machine(provider: LibcloudProvider, sheet: Sheet) -> None:
    first = provider.launch(request())
    assert provider.launch(request()).id == first.id
    assert sheet.count("create") == 1


def test_a_second_process_finds_what_the_first_has_launched(
    provider: LibcloudProvider, sheet: Sheet, clock: ManualClock
) -> None:
    sheet.errors["create"] = [Ambiguous("the reply was lost")]
    first = provider.launch
    with pytest.raises(Ambiguous):
        first(request())
    made = provider.launch(request())
    other = LibcloudProvider(settings(), "test", clock)
    assert other.launch(request()).id == made.id
    assert sheet.count("create") == 2  # the lost one, which made nothing here, and the next


def test_many_equal_launches_at_once_make_one_machine(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: provider.launch(request()).id, range(24)))
    assert len(set(made)) == 1
    assert len(sheet.servers) == 1


def test_a_machine_that_listings_lack_yet_is_not_made_again(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    made = provider.launch(request())
    sheet.hidden.add(made.id)
    assert provider.launch(request()).id == made.id
    assert provider.list().machines == ()
    with pytest.raises(ProviderError, match="just now"):
        provider.terminate(made.id)
    assert sheet.count("create") == 1


def test_a_new_machine_that_never_shows_is_given_up_after_the_lag(
    provider: LibcloudProvider, sheet: Sheet, after: Callable[[float], None]
) -> None:
    made = provider.launch(request())
    sheet.lose(made.id)
    after(9)
    provider.list()
    with pytest.raises(ProviderError) as error:
        provider.stop(made.id)
    assert not isinstance(error.value, NotFound)
    after(2)
    provider.list()
    with pytest.raises(NotFound):
        provider.stop(made.id)


def test_a_launch_repeated_after_the_end_makes_no_second_machine(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    made = provider.launch(request())
    provider.terminate(made.id)
    sheet.lose(made.id)
    provider.list()
    assert provider.launch(request()).state is S.TERMINATED
    assert sheet.count("create") == 1


@pytest.mark.parametrize(
    "changes", [{"user_data": "#!/bin/true\n"}, {"tags": ()}, {"volume_id": "v"}], ids=str
)
def test_other_parameters_under_the_same_id_are_refused(
    provider: LibcloudProvider, sheet: Sheet, changes: dict[str, object]
) -> None:
    provider.launch(request())
    with pytest.raises(InvalidRequest, match="other parameters"):
        provider.launch(request(**changes))
    assert sheet.count("create") == 1


def test_a_price_that_changed_is_no_other_parameter(provider: LibcloudProvider) -> None:
    first = provider.launch(request())
    dearer = replace(offer(), price_per_hour=offer().price_per_hour * 2)
    assert provider.launch(request(offer=dearer)).id == first.id


def test_a_machine_carries_its_tags_and_offer(provider: LibcloudProvider) -> None:
    made = provider.launch(request())
    listed = machine(provider, made.id)
    assert (listed.launch_id, listed.tags) == ("one", (("job", "j1"),))
    assert listed.offer_id == offer().id


@pytest.mark.parametrize(
    "wrong",
    [
        replace(offer(), id=offer().id + "x"),
        offer(zone="r9a"),
        replace(offer(), mode=PurchaseMode.RESERVED, id="paper/r1/r1a/small/reserved"),
    ],
    ids=["id", "region", "mode"],
)
def test_what_is_not_sold_costs_no_call(
    provider: LibcloudProvider, sheet: Sheet, wrong: object
) -> None:
    with pytest.raises(InvalidRequest, match="not sold"):
        provider.launch(request(offer=wrong))
    assert sheet.calls == []


def test_spot_that_is_switched_off_is_not_sold(sheet: Sheet, clock: ManualClock) -> None:
    provider = LibcloudProvider(settings(spot=False), "test", clock)
    with pytest.raises(InvalidRequest, match="not sold"):
        provider.launch(request(offer=offer(mode=PurchaseMode.SPOT)))
    assert not provider.capabilities.spot


@pytest.mark.parametrize("bad", ["", "../x", "a/b", "x" * 65, "*"])
def test_senseless_launch_ids_are_refused(
    provider: LibcloudProvider, sheet: Sheet, bad: str
) -> None:
    with pytest.raises(InvalidRequest):
        provider.launch(request(bad))
    assert sheet.calls == []


def test_tags_that_are_ours_cannot_be_given(provider: LibcloudProvider) -> None:
    with pytest.raises(InvalidRequest, match="roost-"):
        provider.launch(request(tags=(("roost-launch", "another"),)))


def test_an_error_of_the_cloud_leaves_nothing_behind(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    sheet.errors["create"] = [CapacityError("none left"), NotFound("no such image")]
    with pytest.raises(CapacityError):
        provider.launch(request(volume_id="v"))
    # What a launch misses is no machine: its owner is told, and nothing is treated as gone.
    with pytest.raises(InvalidRequest):
        provider.launch(request(volume_id="v"))
    assert (sheet.servers, sheet.disks) == ({}, {})


def test_names_hold_the_launch_id_and_two_ids_are_never_one_name() -> None:
    assert machine_name("0b0e3f2b-6a52") == "roost-0b0e3f2b-6a52"
    names = {machine_name(id) for id in ("a.b", "a:b", "a-b", "A-b", "x" * 64, "x" * 63)}
    assert len(names) == 6
    assert all(len(name) <= 63 and name.replace("-", "").isalnum() for name in names)
