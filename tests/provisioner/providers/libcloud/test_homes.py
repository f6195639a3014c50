"""Home volumes and their snapshots (P6, P14, P15)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from provisioner.clock import ManualClock
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.contract import Leftover, MachineState
from provisioner.providers.libcloud.provider import LibcloudProvider
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import machine, offer, request
from tests.provisioner.providers.libcloud.paper_cloud import Sheet, settings

S = MachineState


def test_a_home_is_made_with_its_machine_and_attached_once_that_runs(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = provider.launch(request(volume_id="v", volume_gib=5)).id
    (volume,) = provider.list().volumes
    assert (volume.id, volume.gib, volume.attached_to, volume.zone) == ("v", 5, id, "r1a")
    assert sheet.count("attach") == 0
    sheet.become(id, S.RUNNING)
    provider.list()
    wait_until(lambda: sheet.disks["d-1"].server_id == id)
    provider.list()
    assert (sheet.count("attach"), sheet.count("create_disk")) == (1, 1)


def test_a_home_is_one_machines_until_that_has_ended(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    first = provider.launch(request(volume_id="v")).id
    with pytest.raises(ProviderError, match=first):
        provider.launch(request("two", volume_id="v"))
    with pytest.raises(ProviderError, match=first):
        provider.delete_volume("v")
    provider.terminate(first)
    with pytest.raises(ProviderError, match=first):
        provider.launch(request("two", volume_id="v"))
    sheet.lose(first)
    second = provider.launch(request("two", volume_id="v")).id
    assert provider.list().volumes[0].attached_to == second
    assert sheet.count("create_disk") == 1
    provider.terminate(second)
    sheet.lose(second)
    provider.delete_volume("v")
    provider.delete_volume("v")
    assert provider.list().volumes == ()


def test_launches_that_race_for_a_home_get_one_machine(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    def launch(number: int) -> bool:
        try:
            return bool(provider.launch(request(f"n{number}", volume_id="v")))
        except ProviderError:
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(launch, range(6))) == 1
    assert len(sheet.disks) == 1


def test_a_home_lies_in_its_zone(provider: LibcloudProvider, sheet: Sheet) -> None:
    first = provider.launch(request(volume_id="v")).id
    provider.terminate(first)
    sheet.lose(first)
    for zone in ("r1b", "r2a"):
        with pytest.raises(InvalidRequest, match="r1a"):
            provider.launch(request("two", volume_id="v", offer=offer(zone=zone)))
    assert sheet.count("create") == 1


def test_trouble_with_a_home_is_told_and_tried_again(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = provider.launch(request(volume_id="v")).id
    sheet.become(id, S.RUNNING)
    sheet.errors["attach"] = [ProviderError("the disk is busy")]
    provider.list()
    wait_until(lambda: sheet.count("attach") == 1)
    wait_until(lambda: "busy" in machine(provider, id).message)
    wait_until(lambda: sheet.disks["d-1"].server_id == id)


def test_a_crash_between_machine_and_home_heals(
    provider: LibcloudProvider, sheet: Sheet, clock: ManualClock
) -> None:
    sheet.errors["create_disk"] = [ProviderError("not now")]
    with pytest.raises(ProviderError, match="not now"):
        provider.launch(request(volume_id="v", volume_gib=7))
    (server,) = sheet.servers.values()
    other = LibcloudProvider(settings(), "test", clock)
    other.list()
    wait_until(lambda: sheet.disks)
    assert sheet.disks["d-1"].gib == 7
    assert other.launch(request(volume_id="v", volume_gib=7)).id == server.id


def test_a_snapshot_outlives_its_volume_and_makes_another(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    id = provider.launch(request(volume_id="v")).id
    made = provider.snapshot("v", "s")
    assert provider.snapshot("v", "s") == made
    with pytest.raises(InvalidRequest, match="no volume"):
        provider.snapshot("unknown", "t")
    provider.terminate(id)
    sheet.lose(id)
    provider.delete_volume("v")
    assert [one.id for one in provider.list().snapshots] == ["s"]
    with pytest.raises(InvalidRequest, match="no snapshot"):
        provider.launch(request("two", volume_id="w", volume_from="unknown"))
    provider.launch(request("two", volume_id="w", volume_from="s"))
    with pytest.raises(InvalidRequest, match="another volume"):
        provider.snapshot("w", "s")
    provider.delete_snapshot("s")
    provider.delete_snapshot("s")
    assert provider.list().snapshots == ()


def test_a_twin_of_a_home_is_left_over(provider: LibcloudProvider, sheet: Sheet) -> None:
    id = provider.launch(request(volume_id="v")).id
    home = replace(sheet.disks["d-1"], server_id=id)
    sheet.disks["d-1"] = home
    sheet.disks["d-0"] = replace(home, id="d-0", server_id=None)
    listing = provider.list()
    assert [one.id for one in listing.volumes] == ["v"]
    assert listing.leftovers == (Leftover("disk", "d-0"),)
    provider.delete_leftover(Leftover("disk", "d-1"))  # it is needed
    provider.delete_leftover(listing.leftovers[0])
    provider.delete_leftover(listing.leftovers[0])
    assert list(sheet.disks) == ["d-1"]
    with pytest.raises(InvalidRequest):
        provider.delete_leftover(Leftover("address", "a"))


def test_without_volumes_none_is_asked_for(sheet: Sheet, clock: ManualClock) -> None:
    provider = LibcloudProvider(settings(volumes=False), "test", clock)
    with pytest.raises(InvalidRequest, match="no volumes"):
        provider.launch(request(volume_id="v"))
    with pytest.raises(InvalidRequest):
        provider.snapshot("v", "s")
    provider.delete_volume("v")
    assert not provider.capabilities.volumes
    assert provider.list().volumes == ()
