"""Alibaba's requests, against what libcloud's authors recorded of it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import pytest

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import (
    AuthError,
    CapacityError,
    InvalidRequest,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "ali")
SIZE, ZONE, REGION, ID = "ecs.t1.small", "cn-qingdao-b", "cn-qingdao", "i-28n7dkvov"
OFFER = offer(SIZE, ZONE, provider="ali", region=REGION)
SPOT = offer(SIZE, ZONE, PurchaseMode.SPOT, "ali", REGION)
RUN = (
    "<RunInstancesResponse><RequestId>r</RequestId><InstanceIdSets>"
    f"<InstanceIdSet>{ID}</InstanceIdSet></InstanceIdSets></RunInstancesResponse>"
)
"""As help.aliyun.com/document_detail/63440.html has it: libcloud knows no RunInstances."""


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("ID", "key-id")
    monkeypatch.setenv("SECRET", "s3cr3t")
    for kind in ("Instances", "Disks", "Snapshots"):
        empty = f"<R><{kind}/><TotalCount>0</TotalCount></R>"
        recorded_cloud.on(f"Describe{kind}", "/", empty)
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="ali",
        driver="alibaba",
        secrets={"access_key": "env:ID", "secret_key": "env:SECRET"},  # type: ignore[dict-item]
        regions=(REGION,),
        image="ubuntu_24_04_x64",
        network="vsw-1",
        security_groups=("sg-1",),
        endpoint_url=cloud.url,
        prices={"*": "0.05"},  # type: ignore[dict-item]
        spot_prices={"*": "0.01"},  # type: ignore[dict-item]
    )
    return LibcloudProvider(settings, "test", clock)


def tagged(body: str, tags: Mapping[str, str], before: str) -> str:
    """A recorded answer whose first thing has marks of ours."""
    listed = "".join(
        f"<Tag><TagKey>{key}</TagKey><TagValue>{value}</TagValue></Tag>"
        for key, value in {**OWNER.marks, **tags}.items()
    )
    body = re.sub(r"<Tags ?/>", "", body, count=1)
    return body.replace(before, f"<Tags>{listed}</Tags>{before}", 1)


def running(
    cloud: Recorded, tags: Mapping[str, str] | None = None, status: str = "Running"
) -> None:
    body = recorded("ecs/describe_instances.xml").replace("Starting", status, 1)
    body = tagged(body, tags or {marks.LAUNCH: "one"}, "<ImageId>")
    cloud.on("DescribeInstances", "/", body)


def test_requests_are_signed_and_their_urls_hold_nothing(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    provider.list()
    for call in cloud.calls:
        assert call.query == {}
        assert call.body["AccessKeyId"] == "key-id"
        assert (call.body["SignatureMethod"], call.body["RegionId"]) == ("HMAC-SHA1", REGION)
        assert len(base64.b64decode(call.body["Signature"])) == 20
    assert "s3cr3t" not in repr(cloud.calls)


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("RunInstances", "/", RUN)
    made = provider.launch(request(offer=OFFER))
    assert (made.id, made.state, made.offer_id) == (ID, S.PENDING, OFFER.id)
    (call,) = cloud.told("RunInstances")
    body = call.body
    tags = {body[f"Tag.{n}.Key"]: body[f"Tag.{n}.Value"] for n in range(1, 6)}
    assert (tags["job"], tags[marks.LAUNCH]) == ("j1", "one")
    assert OWNER.owns(tags)
    assert base64.b64decode(body["UserData"]) == b"#!/bin/sh\n"
    wanted = {
        "ClientToken": "one",
        "InstanceType": SIZE,
        "ZoneId": ZONE,
        "VSwitchId": "vsw-1",
        "SecurityGroupIds.1": "sg-1",
        "InstanceChargeType": "PostPaid",
        "Amount": "1",
    }
    assert wanted.items() <= body.items()
    assert "SpotStrategy" not in body


def test_spot_follows_the_market(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("RunInstances", "/", RUN)
    assert provider.launch(request(offer=SPOT)).offer_id == SPOT.id
    (call,) = cloud.told("RunInstances")
    assert call.body["SpotStrategy"] == "SpotAsPriceGo"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Pending", S.PENDING),
        ("Starting", S.PENDING),
        ("Running", S.RUNNING),
        ("Stopping", S.STOPPING),
        ("Stopped", S.STOPPED),
    ],
)
def test_states_and_recorded_ones_are_not_ours(
    provider: LibcloudProvider, cloud: Recorded, status: str, state: MachineState
) -> None:
    running(cloud, status=status)
    (machine,) = provider.list().machines  # the second one bears no marks
    assert (machine.id, machine.state, machine.offer_id) == (ID, state, OFFER.id)
    assert str(machine.created_at) == "2015-12-27 07:35:00+00:00"


def test_stop_start_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    for action in ("stop", "start", "delete"):
        cloud.on(f"{action.title()}Instance", "/", recorded(f"ecs/{action}_instance.xml"))
    cloud.on("ModifyInstanceSpec", "/", "<R/>")
    running(cloud)
    provider.stop("one")
    running(cloud, status="Stopped")
    provider.list()
    provider.resize(ID, offer("ecs.s2.small", ZONE, provider="ali", region=REGION))
    provider.start(ID)
    provider.terminate(ID)
    (stop,) = cloud.told("StopInstance")
    assert (stop.body["InstanceId"], stop.body["StoppedMode"]) == (ID, "StopCharging")
    (resize,) = cloud.told("ModifyInstanceSpec")
    assert resize.body["InstanceType"] == "ecs.s2.small"
    assert len(cloud.told("StartInstance")) == 1
    (delete,) = cloud.told("DeleteInstance")
    assert delete.body["Force"] == "true"


def test_volumes_and_snapshots(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("ecs/create_volume_describe_disks.xml")
    made = tagged(made, {marks.VOLUME: "vol_1"}, "<DiskChargeType>")
    made = made.replace("In_use", "Available").replace("i-28whl2nj2", "")
    id = re.findall("<DiskId>(.*?)</DiskId>", made)[0]

    def create(_: object) -> str:
        cloud.on("DescribeDisks", "/", made)
        return f"<R><DiskId>{id}</DiskId></R>"

    cloud.on("CreateDisk", "/", create)
    cloud.on("AttachDisk", "/", recorded("ecs/attach_disk.xml"))
    running(cloud, {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "20"})
    provider.list()
    wait_until(lambda: cloud.told("AttachDisk"))
    (call,) = cloud.told("CreateDisk")
    assert (call.body["Size"], call.body["ZoneId"]) == ("20", ZONE)
    assert len(call.body["ClientToken"]) == 64
    (call,) = cloud.told("AttachDisk")
    assert (call.body["DiskId"], call.body["DeleteWithInstance"]) == (id, "false")
    (volume,) = provider.list().volumes
    assert (volume.id, volume.attached_to) == ("vol_1", ID)

    copies = recorded("ecs/describe_snapshots.xml")
    copies = tagged(copies, {marks.VOLUME: "vol_1", marks.SNAPSHOT: "snap_1"}, "<CreationTime>")

    def copy(_: object) -> str:
        cloud.on("DescribeSnapshots", "/", copies)
        return "<R><SnapshotId>s-28n9lltbf</SnapshotId></R>"

    cloud.on("CreateSnapshot", "/", copy)
    cloud.on("DeleteSnapshot", "/", recorded("ecs/delete_snapshot.xml"))
    taken = provider.snapshot("vol_1", "snap_1")
    assert (taken.id, taken.gib, taken.complete) == ("snap_1", 20, False)
    provider.delete_snapshot("snap_1")
    (call,) = cloud.told("DeleteSnapshot")
    assert call.body["SnapshotId"] == "s-28n9lltbf"


def test_sizes_where_a_zone_has_them(provider: LibcloudProvider, cloud: Recorded) -> None:
    types = recorded("ecs/describe_instance_types.xml").replace(
        "</InstanceTypes>",
        "<InstanceType><InstanceTypeId>ecs.c1.large</InstanceTypeId><CpuCoreCount>8</CpuCoreCount>"
        "<MemorySize>30</MemorySize><GPUAmount>1</GPUAmount><GPUSpec>NVIDIA T4</GPUSpec>"
        "</InstanceType></InstanceTypes>",
    )
    cloud.on("DescribeInstanceTypes", "/", types)
    cloud.on("DescribeZones", "/", recorded("ecs/describe_zones.xml"))
    offers = {one.instance_type: one for one in provider.offers()}
    assert set(offers) == {"ecs.t1.xsmall", "ecs.s2.small", "ecs.c1.large"}
    assert offers["ecs.t1.xsmall"].resources.memory_gib == 0.5
    large = offers["ecs.c1.large"]
    assert (large.zone, large.resources.gpus, large.resources.gpu_model) == (ZONE, 1, "T4")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "OperationDenied.NoStock", CapacityError),
        (403, "QuotaExceed.ElasticQuota", QuotaError),
        (400, "Throttling.User", ThrottledError),
        (404, "InvalidAccessKeyId.NotFound", AuthError),
        (403, "IncorrectInstanceStatus", ProviderError),
        (400, "InvalidImageId.NotFound", InvalidRequest),
        (400, "IdempotentParameterMismatch", InvalidRequest),
    ],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    code: str,
    kind: type[ProviderError],
) -> None:
    body = f"<Error><RequestId>r</RequestId><Code>{code}</Code><Message>no</Message></Error>"
    cloud.on("RunInstances", "/", body, status=status)
    with pytest.raises(ProviderError, match=f"{re.escape(code)}: no") as error:
        provider.launch(request(offer=OFFER))
    assert type(error.value) is kind
