"""EC2's requests, against what libcloud's authors recorded of it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import pytest

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "euca")
SIZE, ZONE, REGION, ID = "m1.small", "us-east-1d", "us-east-1", "i-4382922a"
OFFER = offer(SIZE, ZONE, provider="euca", region=REGION)
SPOT = offer(SIZE, ZONE, PurchaseMode.SPOT, "euca", REGION)


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("ID", "key-id")
    monkeypatch.setenv("SECRET", "s3cr3t")
    for kind in ("Instances", "Volumes", "Snapshots"):
        recorded_cloud.on(f"Describe{kind}", "/", "<R/>")
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="euca",
        driver="ec2",
        secrets={"access_key": "env:ID", "secret_key": "env:SECRET"},  # type: ignore[dict-item]
        regions=(REGION,),
        image="ami-1",
        network="subnet-1",
        security_groups=("sg-1",),
        endpoint_url=cloud.url,
        prices={"*": "0.05"},  # type: ignore[dict-item]
        spot_prices={"*": "0.01"},  # type: ignore[dict-item]
    )
    return LibcloudProvider(settings, "test", clock)


def running(
    cloud: Recorded,
    tags: Mapping[str, str] | None = None,
    state: str = "running",
    namespace: str = "http://ec2.amazonaws.com/doc/2016-11-15/",
) -> None:
    """The recorded ones, the first with marks of ours."""
    listed = "".join(
        f"<item><key>{key}</key><value>{value}</value></item>"
        for key, value in {**OWNER.marks, **(tags or {marks.LAUNCH: "one"})}.items()
    )
    body = recorded("ec2/describe_instances.xml")
    body = body.replace("<tagSet/>", f"<tagSet>{listed}</tagSet>", 1)
    body = body.replace("<name>stopped</name>", f"<name>{state}</name>", 1)
    first = re.sub(
        r"(?s)</item>\s*<item>\s*<reservationId>r-88dc1bef.*?</reservationSet>",
        "</item></reservationSet>",
        body,
    )
    cloud.on(
        "DescribeInstances",
        "/",
        first.replace("http://ec2.amazonaws.com/doc/2016-11-15/", namespace),
    )


def test_requests_are_signed_and_their_urls_hold_nothing(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    """libcloud would put all parameters, the user data too, into the URL."""
    provider.list()
    for call in cloud.calls:
        assert call.query == {}
        assert call.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=key-id/")
        assert f"/{REGION}/ec2/aws4_request" in call.headers["authorization"]
        assert call.headers["host"] == cloud.url.removeprefix("http://")
    assert "s3cr3t" not in repr(cloud.calls)


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("RunInstances", "/", recorded("ec2/run_instances.xml"))
    made = provider.launch(request(offer=OFFER))
    assert (made.id, made.state, made.launch_id) == ("i-2ba64342", S.PENDING, "one")
    (call,) = cloud.told("RunInstances")
    body = call.body
    tags = {
        body[f"TagSpecification.1.Tag.{n}.Key"]: body[f"TagSpecification.1.Tag.{n}.Value"]
        for n in range(1, 7)
    }
    assert (tags["Name"], tags["job"], tags[marks.LAUNCH]) == ("roost-one", "j1", "one")
    assert base64.b64decode(body["UserData"]) == b"#!/bin/sh\n"
    wanted = {
        "ClientToken": "one",
        "MinCount": "1",
        "MaxCount": "1",
        "Placement.AvailabilityZone": ZONE,
        "MetadataOptions.HttpTokens": "required",
        "NetworkInterface.1.DeviceIndex": "0",
        "NetworkInterface.1.DeleteOnTermination": "true",
        "NetworkInterface.1.SubnetId": "subnet-1",
        "NetworkInterface.1.SecurityGroupId.1": "sg-1",
    }
    assert wanted.items() <= body.items()
    assert not any(name.startswith("InstanceMarketOptions") for name in body)


def test_spot_is_bought_once_and_ends_when_it_is_taken(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    cloud.on("RunInstances", "/", recorded("ec2/run_instances_spot.xml"))
    made = provider.launch(request(offer=SPOT))
    assert made.offer_id.endswith("/spot")
    (call,) = cloud.told("RunInstances")
    options = "InstanceMarketOptions.SpotOptions"
    assert call.body["InstanceMarketOptions.MarketType"] == "spot"
    assert call.body[f"{options}.SpotInstanceType"] == "one-time"
    assert call.body[f"{options}.InstanceInterruptionBehavior"] == "terminate"
    assert f"{options}.MaxPrice" not in call.body


@pytest.mark.parametrize(
    "namespace",
    ["http://ec2.amazonaws.com/doc/2016-11-15/", "http://ec2.amazonaws.com/doc/2016-11-15", "x"],
)
def test_namespaces_that_compatible_clouds_get_wrong_do_not_matter(
    provider: LibcloudProvider, cloud: Recorded, namespace: str
) -> None:
    running(cloud, namespace=namespace)
    assert [one.id for one in provider.list().machines] == [ID]


def test_states_runs_and_ends(provider: LibcloudProvider, cloud: Recorded) -> None:
    running(cloud)
    (machine,) = provider.list().machines
    assert (machine.state, machine.offer_id) == (S.RUNNING, OFFER.id)
    assert str(machine.run_started_at) == "2013-12-02 11:58:11+00:00"
    running(cloud, state="stopped")
    (machine,) = provider.list().machines
    assert (machine.state, str(machine.run_ended_at)) == (S.STOPPED, "2014-01-11 14:39:31+00:00")
    running(cloud, state="terminated")
    (machine,) = provider.list().machines
    assert (machine.state, machine.end_reason) == (S.TERMINATED, EndReason.ASKED)


def test_filters_and_pages(provider: LibcloudProvider, cloud: Recorded) -> None:
    def page(call: object) -> str:
        running(cloud)
        return "<R><reservationSet/><nextToken>more</nextToken></R>"

    cloud.on("DescribeInstances", "/", page)
    assert [one.id for one in provider.list().machines] == [ID]
    first, second = (call.body for call in cloud.told("DescribeInstances"))
    filters = {first[f"Filter.{n}.Name"]: first[f"Filter.{n}.Value.1"] for n in (1, 2)}
    assert filters == {"tag:roost-installation": "test", "tag:roost-provider": "euca"}
    assert "NextToken" not in first
    assert second["NextToken"] == "more"


def test_stop_start_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    for action in ("stop", "start", "terminate"):
        cloud.on(f"{action.title()}Instances", "/", recorded(f"ec2/{action}_instances.xml"))
    answer = recorded("ec2/modify_instance_attribute.xml")
    cloud.on("ModifyInstanceAttribute", "/", answer)
    running(cloud)
    provider.stop("one")
    running(cloud, state="stopped")
    provider.list()
    provider.resize(ID, offer("m1.large", ZONE, provider="euca", region=REGION))
    provider.start(ID)
    provider.terminate(ID)
    for action in ("Stop", "Start", "Terminate"):
        (call,) = cloud.told(f"{action}Instances")
        assert call.body["InstanceId.1"] == ID
    (call,) = cloud.told("ModifyInstanceAttribute")
    assert call.body["InstanceType.Value"] == "m1.large"


def test_volumes(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("ec2/create_volume.xml").replace("creating", "available")
    cloud.on("CreateVolume", "/", made)
    cloud.on("AttachVolume", "/", recorded("ec2/attach_volume.xml"))
    running(cloud, {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "10"})
    provider.list()
    wait_until(lambda: cloud.told("AttachVolume"))
    (call,) = cloud.told("CreateVolume")
    assert (call.body["Size"], call.body["AvailabilityZone"]) == ("10", ZONE)
    assert call.body["ClientToken"] == f"roost-vol_1-{ZONE}"
    (call,) = cloud.told("AttachVolume")
    assert (call.body["VolumeId"], call.body["InstanceId"]) == ("vol-4d826724", ID)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (500, "InsufficientInstanceCapacity", CapacityError),
        (400, "Unsupported", CapacityError),
        (400, "VcpuLimitExceeded", QuotaError),
        (400, "MaxSpotInstanceCountExceeded", QuotaError),
        (503, "RequestLimitExceeded", ThrottledError),
        (403, "UnauthorizedOperation", AuthError),
        (401, "AuthFailure", AuthError),
        (400, "IdempotentParameterMismatch", InvalidRequest),
        (400, "InvalidAMIID.NotFound", InvalidRequest),
        (400, "IncorrectInstanceState", ProviderError),
        (500, "InternalError", Ambiguous),
    ],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    code: str,
    kind: type[ProviderError],
) -> None:
    body = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors>"
        "<RequestID>r</RequestID></Response>"
    )
    cloud.on("RunInstances", "/", body, status=status)
    with pytest.raises(ProviderError, match=f"{re.escape(code)}: no") as error:
        provider.launch(request(offer=OFFER))
    assert type(error.value) is kind
