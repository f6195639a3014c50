"""Home volumes and snapshots: one machine at a time, made once, healed after a crash."""

from __future__ import annotations

import pytest

from provisioner.errors import CapacityError, InvalidRequest, ProviderError, QuotaError
from provisioner.providers.aws.homes import DEVICE
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.contract import Leftover, Listing
from tests.contract.machines import wait_until
from tests.provisioner.providers.aws.cloud import XML, Cloud, Rule
from tests.provisioner.providers.aws.conftest import Make, offer, request


def attached(provider: AwsProvider, cloud: Cloud, count: int = 1) -> Listing:
    """The listing after the next one, which has homes attached beside it."""
    provider.list()
    wait_until(lambda: len(cloud.told("AttachVolume")) >= count)
    return provider.list()


def test_a_home_is_made_with_its_machine_and_attached_when_it_runs(
    provider: AwsProvider, cloud: Cloud, installation: str
) -> None:
    machine = provider.launch(request(volume_id="v", volume_gib=5))
    (volume,) = provider.list().volumes
    assert (volume.id, volume.gib, volume.attached_to) == ("v", 5, machine.id)
    assert volume.zone == "us-east-1a"
    attached(provider, cloud)
    asked = cloud.told("AttachVolume")[0]
    assert (asked["InstanceId"], asked["Device"]) == (machine.id, DEVICE)
    (made,) = cloud.told("CreateVolume")
    assert made["Encrypted"] == "true"


def test_a_home_has_one_machine_at_a_time_and_outlives_it(
    provider: AwsProvider, cloud: Cloud
) -> None:
    first = provider.launch(request("one", volume_id="v"))
    with pytest.raises(ProviderError, match="home of machine"):
        provider.launch(request("two", volume_id="v"))
    with pytest.raises(ProviderError, match="home of machine"):
        provider.delete_volume("v")
    attached(provider, cloud)
    provider.terminate(first.id)
    assert provider.list().volumes[0].attached_to is None
    second = provider.launch(request("two", volume_id="v"))
    assert provider.list().volumes[0].attached_to == second.id
    attached(provider, cloud, 2)
    assert len(cloud.told("CreateVolume")) == 1
    provider.terminate(second.id)
    provider.delete_volume("v")
    provider.delete_volume("v")
    assert provider.list().volumes == ()


def test_a_launch_without_capacity_leaves_no_home_that_binds_to_its_zone(
    provider: AwsProvider, cloud: Cloud
) -> None:
    cloud.fail("RunInstances", "InsufficientInstanceCapacity", status=500)
    with pytest.raises(CapacityError):
        provider.launch(request("one", volume_id="v"))
    assert provider.list().volumes == ()
    elsewhere = request("two", volume_id="v", offer=offer(zone="us-east-1b"))
    provider.launch(elsewhere)
    assert provider.list().volumes[0].zone == "us-east-1b"


def test_a_home_in_another_zone_cannot_be_had(provider: AwsProvider) -> None:
    provider.terminate(provider.launch(request("one", volume_id="v")).id)
    with pytest.raises(InvalidRequest, match="lies in us-east-1a"):
        provider.launch(request("two", volume_id="v", offer=offer(zone="us-east-1b")))


def test_a_home_in_another_region_is_not_made_a_second_time(make: Make) -> None:
    provider = make(regions=("us-east-1", "us-west-2"))
    provider.terminate(provider.launch(request("one", volume_id="v")).id)
    with pytest.raises(InvalidRequest, match="lies in us-east-1a"):
        provider.launch(request("two", volume_id="v", offer=offer(zone="us-west-2a")))
    assert len(provider.list().volumes) == 1


@pytest.mark.parametrize("by", ["launch", "list"])
def test_a_machine_that_a_crash_left_without_its_home_gets_it(
    make: Make, cloud: Cloud, by: str
) -> None:
    cloud.fail("CreateVolume", "VolumeLimitExceeded")
    with pytest.raises(QuotaError):
        make().launch(request(volume_id="v", volume_gib=7))
    fresh = make()
    if by == "launch":
        fresh.launch(request(volume_id="v", volume_gib=7))
    listing = attached(fresh, cloud)
    (volume,), (machine,) = listing.volumes, listing.machines
    assert (volume.gib, volume.attached_to) == (7, machine.id)


def test_a_lost_answer_makes_one_home(provider: AwsProvider, cloud: Cloud) -> None:
    cloud.lose_reply("CreateVolume")
    provider.launch(request(volume_id="v"))
    assert len(provider.list().volumes) == 1


def test_what_keeps_a_home_from_its_machine_is_told_with_the_machine(
    provider: AwsProvider, cloud: Cloud
) -> None:
    provider.launch(request(volume_id="v"))
    cloud.fail("AttachVolume", "UnauthorizedOperation", status=403, count=1000)
    wait_until(lambda: "UnauthorizedOperation" in provider.list().machines[0].message)
    cloud.rules.clear()
    wait_until(lambda: provider.list().machines[0].message == "")


def test_an_attachment_that_is_there_already_is_no_trouble(
    provider: AwsProvider, cloud: Cloud
) -> None:
    provider.launch(request(volume_id="v"))
    cloud.fail("AttachVolume", "VolumeInUse")
    assert attached(provider, cloud).machines[0].message == ""
    assert attached(provider, cloud, 2).machines[0].message == ""


def test_root_disks_are_no_homes(provider: AwsProvider) -> None:
    provider.launch(request())
    assert provider.list().volumes == ()


@pytest.mark.parametrize("pattern", ["*", "?"])
def test_no_pattern_deletes_anything(provider: AwsProvider, pattern: str) -> None:
    provider.terminate(provider.launch(request(volume_id="v")).id)
    provider.snapshot("v", "s")
    provider.delete_volume(pattern)
    provider.delete_snapshot(pattern)
    listing = provider.list()
    assert (len(listing.volumes), len(listing.snapshots)) == (1, 1)


def test_a_snapshot_outlives_its_volume_and_makes_others(
    provider: AwsProvider, cloud: Cloud
) -> None:
    provider.terminate(provider.launch(request("one", volume_id="v", volume_gib=5)).id)
    taken = provider.snapshot("v", "s")
    assert (taken.id, taken.volume_id, taken.gib) == ("s", "v", 5)
    assert provider.snapshot("v", "s").id == "s"
    assert len(cloud.told("CreateSnapshot")) == 1
    provider.delete_volume("v")
    assert [one.id for one in provider.list().snapshots] == ["s"]
    provider.launch(
        request("two", volume_id="w", volume_gib=6, volume_from="s", offer=offer(zone="us-east-1b"))
    )
    made = cloud.told("CreateVolume")[1]
    assert made["SnapshotId"].startswith("snap-")
    assert [(one.id, one.zone) for one in provider.list().volumes] == [("w", "us-east-1b")]
    provider.delete_snapshot("s")
    provider.delete_snapshot("s")
    assert provider.list().snapshots == ()


def test_a_snapshot_has_one_volume_and_must_be_there(provider: AwsProvider, cloud: Cloud) -> None:
    provider.launch(request("one", volume_id="v"))
    provider.launch(request("two", volume_id="w"))
    provider.snapshot("v", "s")
    with pytest.raises(InvalidRequest, match="of volume v"):
        provider.snapshot("w", "s")
    with pytest.raises(InvalidRequest, match="no volume"):
        provider.snapshot("nobody", "t")
    launches = len(cloud.told("RunInstances"))
    with pytest.raises(InvalidRequest, match="no snapshot"):
        provider.launch(request("three", volume_id="x", volume_from="nobody"))
    assert len(cloud.told("RunInstances")) == launches


def test_a_twin_of_a_snapshot_is_a_leftover(provider: AwsProvider, cloud: Cloud) -> None:
    provider.launch(request(volume_id="v"))
    cloud.lose_reply("CreateSnapshot")
    with pytest.raises(ProviderError):
        provider.snapshot("v", "s")
    assert len(cloud.told("CreateSnapshot")) == 1  # it is not repeated unseen
    cloud.rules.clear()
    empty = b'<DescribeSnapshotsResponse xmlns="x"><snapshotSet/></DescribeSnapshotsResponse>'
    cloud.rules.append(Rule("DescribeSnapshots", answer=lambda _: (200, XML, empty)))
    provider.snapshot("v", "s")
    listing = provider.list()
    assert [one.id for one in listing.snapshots] == ["s"]
    (twin,) = [one for one in listing.leftovers if one.kind == "snapshot"]
    provider.delete_leftover(twin)
    provider.delete_leftover(twin)
    after = provider.list()
    assert [one.id for one in after.snapshots] == ["s"]
    assert Leftover("snapshot", twin.id) not in after.leftovers
