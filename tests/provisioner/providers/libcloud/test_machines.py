"""Start, stop, resize and terminate (P4, P5, P8, P9, P13), on a cloud that shows them late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies.world import PurchaseMode
from provisioner.errors import InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.libcloud.provider import LibcloudProvider
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import NOW, machine, offer, request
from tests.provisioner.providers.libcloud.paper_cloud import Sheet

S = MachineState


def launched(provider: LibcloudProvider, sheet: Sheet, **changes: object) -> str:
    made = provider.launch(request(**changes))
    sheet.become(made.id, S.RUNNING)
    return made.id


def test_what_was_asked_shows_at_once_and_is_asked_once(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = launched(provider, sheet)
    provider.stop(id)
    provider.stop(id)
    assert machine(provider, id).state is S.STOPPING
    sheet.become(id, S.STOPPED)
    assert machine(provider, id).state is S.STOPPED
    provider.start("one")
    provider.start("one")
    assert machine(provider, id).state is S.PENDING
    sheet.become(id, S.RUNNING)
    assert machine(provider, id).state is S.RUNNING
    provider.terminate(id)
    provider.terminate(id)
    assert machine(provider, id).state is S.TERMINATING
    assert [sheet.count(call) for call in ("stop", "start", "delete")] == [1, 1, 1]


def test_a_change_that_never_comes_is_not_believed_for_ever(
    provider: LibcloudProvider, sheet: Sheet, after: Callable[[float], None]
) -> None:
    id = launched(provider, sheet)
    provider.stop(id)
    after(301)
    assert machine(provider, id).state is S.RUNNING
    provider.stop(id)
    assert sheet.count("stop") == 2


def test_it_is_terminated_only_when_it_is_gone(
    provider: LibcloudProvider, sheet: Sheet, after: Callable[[float], None]
) -> None:
    id = launched(provider, sheet)
    provider.list()
    provider.terminate(id)
    after(30)
    assert machine(provider, id).state is S.TERMINATING
    sheet.lose(id)
    ended = machine(provider, id)
    assert (ended.state, ended.end_reason) == (S.TERMINATED, EndReason.ASKED)
    assert ended.run_ended_at is not None
    assert (ended.run_ended_at - NOW).total_seconds() == 30
    after(600)
    assert machine(provider, id) == ended
    provider.terminate(id)
    for call in (provider.start, provider.stop):
        with pytest.raises(InvalidRequest):
            call(id)
    after(3600)
    assert provider.list().machines == ()


def test_one_that_vanishes_is_not_said_to_have_ended(
    provider: LibcloudProvider, sheet: Sheet, after: Callable[[float], None]
) -> None:
    id = launched(provider, sheet)
    provider.list()
    after(60)
    sheet.lose(id)
    assert provider.list().machines == ()
    with pytest.raises(NotFound):
        provider.terminate(id)


def test_what_the_cloud_says_of_an_end_is_told(provider: LibcloudProvider, sheet: Sheet) -> None:
    id = launched(provider, sheet, offer=offer(mode=PurchaseMode.SPOT))
    provider.list()
    sheet.ends[id] = (EndReason.RECLAIMED, "preempted")
    sheet.lose(id)
    ended = machine(provider, id)
    assert (ended.state, ended.end_reason) == (S.TERMINATED, EndReason.RECLAIMED)
    assert ended.message == "preempted"


def test_a_silent_region_has_ended_nothing(provider: LibcloudProvider, sheet: Sheet) -> None:
    id = launched(provider, sheet)
    there = launched(provider, sheet, launch_id="two", offer=offer(zone="r2a"))
    provider.list()
    provider.terminate(id)
    sheet.silent.add("r1")
    sheet.lose(id)
    listing = provider.list()
    assert listing.silent_regions == {"r1"}
    assert [one.id for one in listing.machines] == [there]
    sheet.silent.clear()
    assert machine(provider, id).state is S.TERMINATED


def test_no_region_that_answers_is_an_error(provider: LibcloudProvider, sheet: Sheet) -> None:
    sheet.silent |= {"r1", "r2"}
    with pytest.raises(ProviderError, match="silent"):
        provider.list()


def test_runs_are_seen_where_the_cloud_does_not_tell_them(
    provider: LibcloudProvider, sheet: Sheet, after: Callable[[float], None]
) -> None:
    id = provider.launch(request()).id
    assert machine(provider, id).run_started_at is None
    after(30)
    sheet.become(id, S.RUNNING)
    first = machine(provider, id)
    assert (first.run_started_at, first.run_ended_at) == (NOW, None)  # since it was made
    after(60)
    provider.stop(id)
    sheet.become(id, S.STOPPED)
    stopped = machine(provider, id)
    assert stopped.run_ended_at is not None
    assert (stopped.run_ended_at - NOW).total_seconds() == 90
    after(10)
    assert machine(provider, id).run_ended_at == stopped.run_ended_at
    provider.start(id)
    assert machine(provider, id).run_started_at is None
    sheet.become(id, S.RUNNING)
    second = machine(provider, id)
    assert second.run_started_at is not None
    assert second.run_started_at >= stopped.run_ended_at
    assert second.run_ended_at is None


def test_a_spot_machine_is_neither_stopped_nor_started(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = launched(provider, sheet, offer=offer(mode=PurchaseMode.SPOT))
    for call in (provider.stop, provider.start):
        with pytest.raises(InvalidRequest, match="spot"):
            call(id)
    assert sheet.count("stop") == 0


def test_a_stopped_machine_gets_another_size(provider: LibcloudProvider, sheet: Sheet) -> None:
    id = launched(provider, sheet)
    with pytest.raises(InvalidRequest, match="running"):
        provider.resize(id, offer("large"))
    sheet.become(id, S.STOPPED)
    with pytest.raises(InvalidRequest, match="in place"):
        provider.resize(id, offer("large", zone="r1b"))
    provider.resize(id, offer("large"))
    assert machine(provider, id).offer_id == offer("large").id  # from now on
    sheet.become(id, S.STOPPED, size="large")
    assert machine(provider, id).offer_id == offer("large").id
    provider.resize(id, offer("large"))
    assert sheet.count("resize") == 1


def test_a_resize_is_confirmed_by_itself_and_not_started_before(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = launched(provider, sheet)
    sheet.become(id, S.STOPPED, size="large", confirm=True)
    with pytest.raises(ProviderError, match="being resized"):
        provider.start(id)
    before = sheet.count("confirm")
    provider.list()
    wait_until(lambda: sheet.count("confirm") > before)
    assert sheet.count("start") == 0
    sheet.become(id, S.STOPPED, confirm=False)
    provider.start(id)
    assert sheet.count("start") == 1


def test_one_that_cannot_be_built_is_deleted_and_told(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = provider.launch(request()).id
    sheet.become(id, S.PENDING, failed="No valid host was found")
    assert machine(provider, id).state is S.TERMINATING  # it is not waited for
    wait_until(lambda: sheet.count("delete"))
    sheet.lose(id)
    ended = machine(provider, id)
    assert (ended.state, ended.end_reason) == (S.TERMINATED, EndReason.FAILED)
    assert ended.message == "No valid host was found"


def test_an_unknown_machine_is_not_found(provider: LibcloudProvider) -> None:
    for call in (provider.stop, provider.start, provider.terminate):
        for name in ("nobody", "../x", "", ".", "a/b", "x" * 200):
            with pytest.raises(NotFound):
                call(name)


def test_a_machine_of_another_owner_is_not_found(provider: LibcloudProvider, sheet: Sheet) -> None:
    id = launched(provider, sheet)
    theirs = sheet.servers[id]
    sheet.servers[id] = replace(theirs, marks={**theirs.marks, "roost-provider": "another"})
    provider.list()
    for name in (id, "one"):
        with pytest.raises(ProviderError):
            provider.terminate(name)
    assert sheet.count("delete") == 0
