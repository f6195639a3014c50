"""The test cloud itself: it behaves as AWS does where moto does not, and fails when told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    ClientError,
    ConnectionClosedError,
)

from tests.clouds.aws.control import AwsCloud

REGION = "us-east-1"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
Client = Callable[..., Any]


@pytest.fixture(scope="module")
def session() -> Any:
    return boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")


@pytest.fixture
def cloud(aws_cloud: AwsCloud) -> AwsCloud:
    aws_cloud.stand_still(NOW)
    return aws_cloud


@pytest.fixture
def client(cloud: AwsCloud, session: Any) -> Client:
    def made(service: str = "ec2", attempts: int = 1) -> Any:
        retries = {"mode": "standard", "total_max_attempts": attempts}
        config = Config(retries=retries, parameter_validation=False)
        return session.client(service, REGION, endpoint_url=cloud.url, config=config)

    return made


@pytest.fixture
def ec2(client: Client) -> Any:
    return client()


@pytest.fixture
def image(client: Client) -> str:
    return str(client("ssm").get_parameter(Name=IMAGE)["Parameter"]["Value"])


@pytest.fixture
def run(ec2: Any, image: str) -> Callable[..., str]:
    """Makes an instance; its id."""

    def made(**changes: Any) -> str:
        values = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
        return str(ec2.run_instances(**{**values, **changes})["Instances"][0]["InstanceId"])

    return made


SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}


def described(ec2: Any, id: str) -> dict[str, Any]:
    found = ec2.describe_instances(InstanceIds=[id])["Reservations"][0]["Instances"][0]
    assert isinstance(found, dict)
    return found


def state(ec2: Any, id: str) -> str:
    return str(described(ec2, id)["State"]["Name"])


def refused(call: Callable[[], object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(ClientError) as raised:
        call()
    return str(raised.value.response["Error"]["Code"])


def test_transitions_take_their_time_and_say_when_and_why(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str]
) -> None:
    cloud.knobs(pending_s=30, stopping_s=20)
    id = run()
    assert state(ec2, id) == "pending"
    cloud.advance(29)
    assert state(ec2, id) == "pending"
    cloud.advance(1)
    assert described(ec2, id)["LaunchTime"] == NOW
    assert state(ec2, id) == "running"
    ec2.stop_instances(InstanceIds=[id])
    assert state(ec2, id) == "stopping"
    assert refused(lambda: ec2.start_instances(InstanceIds=[id])) == "IncorrectInstanceState"
    cloud.advance(20)
    stopped = described(ec2, id)
    assert stopped["State"]["Name"] == "stopped"
    assert stopped["StateTransitionReason"] == "User initiated (2026-03-01 12:00:30 GMT)"
    assert stopped["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    ec2.start_instances(InstanceIds=[id])
    assert described(ec2, id)["LaunchTime"] == NOW + timedelta(seconds=50)
    cloud.advance(30)
    ec2.terminate_instances(InstanceIds=[id])
    ec2.terminate_instances(InstanceIds=[id])
    assert state(ec2, id) == "shutting-down"
    assert cloud.inventory() != {}
    cloud.advance(20)
    ec2.terminate_instances(InstanceIds=[id])
    assert state(ec2, id) == "terminated"
    assert cloud.inventory() == {}
    assert [run for one in cloud.instances() for run in one["runs"]] == [
        ["2026-03-01T12:00:00+00:00", "2026-03-01T12:00:30+00:00"],
        ["2026-03-01T12:00:50+00:00", "2026-03-01T12:01:20+00:00"],
    ]


def test_what_has_ended_is_gone_after_a_while(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str]
) -> None:
    id = run()
    ec2.terminate_instances(InstanceIds=[id])
    cloud.advance(3599)
    assert state(ec2, id) == "terminated"
    cloud.advance(1)
    assert ec2.describe_instances()["Reservations"] == []


def test_a_new_instance_is_not_seen_at_once(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str]
) -> None:
    cloud.knobs(visible_s=5, lag_s=10)
    id = run()
    for call in (ec2.describe_instances, ec2.stop_instances, ec2.terminate_instances):
        assert refused(partial(call, InstanceIds=[id])) == "InvalidInstanceID.NotFound"
    cloud.advance(5)
    assert state(ec2, id) == "running"
    assert ec2.describe_instances()["Reservations"] == []
    cloud.advance(5)
    assert len(ec2.describe_instances()["Reservations"]) == 1


def test_equal_calls_with_one_token_are_one(ec2: Any, run: Callable[..., str]) -> None:
    first = run(ClientToken="t")
    assert run(ClientToken="t") == first
    again = refused(lambda: run(ClientToken="t", InstanceType="m5.xlarge"))
    assert again == "IdempotentParameterMismatch"
    ec2.terminate_instances(InstanceIds=[first])
    assert run(ClientToken="t") == first
    assert run(ClientToken="u") != first
    volume = {"AvailabilityZone": "us-east-1a", "Size": 1, "ClientToken": "t"}
    made = ec2.create_volume(**volume)["VolumeId"]
    assert ec2.create_volume(**volume)["VolumeId"] == made
    assert (
        refused(lambda: ec2.create_volume(**{**volume, "Size": 2})) == "IdempotentParameterMismatch"
    )


def test_faults_come_as_ordered(cloud: AwsCloud, ec2: Any, run: Callable[..., str]) -> None:
    cloud.rule("RunInstances", code="RequestLimitExceeded", status=503, count=2)
    cloud.rule("DescribeVolumes", code="UnauthorizedOperation", status=403, region="eu-.*")
    assert [refused(run) for _ in range(2)] == ["RequestLimitExceeded"] * 2
    id = run()
    ec2.describe_volumes()
    cloud.rule("StopInstances", match={r"InstanceId\.\d+": "i-other"}, code="InternalError")
    ec2.stop_instances(InstanceIds=[id])
    assert [call["status"] for call in cloud.calls("RunInstances")] == [503, 503, 200]
    cloud.rule("DescribeVpcs", code="InternalError", every=2, count=None, status=500)
    ec2.describe_vpcs()
    assert refused(ec2.describe_vpcs) == "InternalError"
    ec2.describe_vpcs()
    cloud.no_rules()
    ec2.describe_vpcs()


def test_an_answer_can_be_lost_before_and_after_the_deed(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str], client: Client
) -> None:
    cloud.rule("RunInstances", drop=True)
    cloud.rule("RunInstances", drop_after=True)
    with pytest.raises(ConnectionClosedError):
        run()
    assert cloud.inventory() == {}
    with pytest.raises(ConnectionClosedError):
        run(ClientToken="t")
    assert len(cloud.instances()) == 1
    assert run(ClientToken="t") == cloud.instances()[0]["id"]
    cloud.rule("StopInstances", drop_after=True)
    client(attempts=2).stop_instances(InstanceIds=[cloud.instances()[0]["id"]])
    assert [call["status"] for call in cloud.calls("StopInstances")] == [0, 200]


def test_a_delayed_answer_holds_up_nobody_else(cloud: AwsCloud, ec2: Any) -> None:
    cloud.rule("DescribeVpcs", delay_s=1.5)
    with ThreadPoolExecutor(1) as pool:
        delayed = pool.submit(ec2.describe_vpcs)
        ec2.describe_volumes()
        assert not delayed.done()
        assert delayed.result()["Vpcs"]


def test_only_what_is_stopped_can_be_resized(ec2: Any, run: Callable[..., str]) -> None:
    id = run()

    def resize(name: str) -> None:
        ec2.modify_instance_attribute(InstanceId=id, InstanceType={"Value": name})

    assert refused(lambda: resize("m5.xlarge")) == "IncorrectInstanceState"
    ec2.stop_instances(InstanceIds=[id])
    assert refused(lambda: resize("m5.none")) == "InvalidInstanceAttributeValue"
    resize("m5.xlarge")
    assert described(ec2, id)["InstanceType"] == "m5.xlarge"


def test_capacity_and_quotas_run_out(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str], client: Client
) -> None:
    cloud.knobs(scarce=["us-east-1a/m5.*/on-demand"], quota_vcpus={"L-34B43A08": 2})
    zone = {"Placement": {"AvailabilityZone": "us-east-1a"}}
    assert refused(lambda: run(**zone)) == "InsufficientInstanceCapacity"
    id = run(Placement={"AvailabilityZone": "us-east-1b"})
    run(**SPOT)
    assert refused(lambda: run(**SPOT)) == "MaxSpotInstanceCountExceeded"
    cloud.knobs(quota_vcpus={"L-1216C47A": 2})
    assert refused(lambda: run(InstanceType="c5.large")) == "VcpuLimitExceeded"
    ec2.stop_instances(InstanceIds=[id])
    run(InstanceType="c5.large")
    assert refused(lambda: ec2.start_instances(InstanceIds=[id])) == "VcpuLimitExceeded"
    pages = client("service-quotas").get_paginator("list_service_quotas")
    told = [one for page in pages.paginate(ServiceCode="ec2") for one in page["Quotas"]]
    values = {one["QuotaCode"]: one["Value"] for one in told}
    assert values["L-1216C47A"] == 2
    assert len(values) == len(told) > 5


def test_spot_has_a_request_and_cannot_be_stopped(ec2: Any, run: Callable[..., str]) -> None:
    id = run(**SPOT)
    request = described(ec2, id)["SpotInstanceRequestId"]
    assert described(ec2, id)["InstanceLifecycle"] == "spot"
    stop = refused(lambda: ec2.stop_instances(InstanceIds=[id]))
    assert stop == "UnsupportedOperation"
    (told,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (told["SpotInstanceRequestId"], told["InstanceId"]) == (request, id)
    ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[request])
    (told,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (told["State"], state(ec2, id)) == ("cancelled", "running")
    unknown = refused(
        lambda: ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=["sir-none"])
    )
    assert unknown == "InvalidSpotInstanceRequestID.NotFound"


def test_an_interruption_is_announced_and_then_happens(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str], client: Client
) -> None:
    queue = cloud.notices_queue(REGION)
    id = run(**SPOT)
    action = "latest/meta-data/spot/instance-action"
    assert cloud.metadata(id, "latest/meta-data/instance-id").text == id
    assert cloud.metadata(id, action).status_code == 404
    cloud.rebalance(id)
    assert cloud.interrupt(id, 120) == NOW + timedelta(seconds=120)
    assert cloud.metadata(id, action).json()["time"] == "2026-03-01T12:02:00Z"
    assert cloud.metadata(id, "latest/meta-data/events/recommendations/rebalance").is_success
    cloud.advance(119)
    assert state(ec2, id) == "running"
    cloud.advance(1)
    ended = described(ec2, id)
    assert ended["State"]["Name"] == "terminated"
    assert ended["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    sqs, events = client("sqs"), []
    while found := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        events += [json.loads(one["Body"]) for one in found]
    assert [(one["detail-type"], one["detail"].get("state")) for one in events] == [
        ("EC2 Instance State-change Notification", "running"),
        ("EC2 Instance Rebalance Recommendation", None),
        ("EC2 Spot Instance Interruption Warning", None),
        ("EC2 Instance State-change Notification", "shutting-down"),
        ("EC2 Instance State-change Notification", "terminated"),
    ]
    assert events[2]["detail"] == {"instance-id": id, "instance-action": "terminate"}
    assert events[2]["time"] == "2026-03-01T12:00:00Z"


def test_volumes_stay_in_their_zone_and_with_their_instance(
    cloud: AwsCloud, ec2: Any, run: Callable[..., str]
) -> None:
    cloud.knobs(pending_s=5, stopping_s=5)
    id = run(Placement={"AvailabilityZone": "us-east-1a"})
    here, there = (
        ec2.create_volume(AvailabilityZone=f"us-east-1{zone}", Size=1)["VolumeId"] for zone in "ab"
    )

    def attach(volume: str) -> None:
        ec2.attach_volume(VolumeId=volume, InstanceId=id, Device="/dev/sdf")

    assert refused(lambda: attach(here)) == "IncorrectState"
    cloud.advance(5)
    assert refused(lambda: attach(there)) == "InvalidVolume.ZoneMismatch"
    attach(here)
    assert refused(lambda: attach(here)) == "VolumeInUse"
    assert refused(lambda: ec2.delete_volume(VolumeId=here)) == "VolumeInUse"
    ec2.terminate_instances(InstanceIds=[id])
    assert refused(lambda: ec2.delete_volume(VolumeId=here)) == "VolumeInUse"
    cloud.advance(5)
    ec2.delete_volume(VolumeId=here)
    ec2.delete_volume(VolumeId=there)
    assert cloud.inventory() == {}


def test_a_fleet_takes_the_cheapest_that_can_be_had(cloud: AwsCloud, ec2: Any, image: str) -> None:
    subnets = {
        one["AvailabilityZone"]: one["SubnetId"] for one in ec2.describe_subnets()["Subnets"]
    }
    ec2.create_launch_template(LaunchTemplateName="t", LaunchTemplateData={"ImageId": image})
    names = ("m5.4xlarge", "m5.large", "c5.large")
    overrides = [{"InstanceType": one, "SubnetId": subnets["us-east-1a"]} for one in names]

    def create(token: str) -> dict[str, Any]:
        spec = {"LaunchTemplateName": "t", "Version": "$Latest"}
        made = ec2.create_fleet(
            Type="instant",
            ClientToken=token,
            TargetCapacitySpecification={
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "spot",
            },
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": spec, "Overrides": overrides}],
        )
        assert isinstance(made, dict)
        return made

    (first,) = create("a")["Instances"]
    assert first["InstanceType"] in names[1:]
    assert create("a")["Instances"] == [first]
    assert described(ec2, first["InstanceIds"][0])["InstanceLifecycle"] == "spot"
    cloud.knobs(scarce=["us-east-1a/?5.large/spot"])
    assert create("b")["Instances"][0]["InstanceType"] == "m5.4xlarge"
    cloud.knobs(scarce=["*"])
    refusal = create("c")
    assert not refusal.get("Instances")
    codes = {one["ErrorCode"] for one in refusal["Errors"]}
    assert codes == {"InsufficientInstanceCapacity"}


def test_prices_move_and_are_told_newest_first_in_pages(
    cloud: AwsCloud, ec2: Any, client: Client
) -> None:
    cloud.knobs(page=3)
    start = NOW - timedelta(days=3)
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=["m5.large"], AvailabilityZone="us-east-1a", StartTime=start, EndTime=NOW
    )
    rows = [row for page in pages for row in page["SpotPriceHistory"]]
    times = [row["Timestamp"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times) == 13
    assert times[-1] <= start
    assert len({row["SpotPrice"] for row in rows}) > 3
    listed = client("pricing").get_paginator("get_products")
    cloud.knobs(types=["m5.*"])
    wanted = [{"Type": "TERM_MATCH", "Field": "operatingSystem", "Value": "Linux"}]
    found = [
        json.loads(one)["product"]["attributes"]["instanceType"]
        for page in listed.paginate(ServiceCode="AmazonEC2", Filters=wanted)
        for one in page["PriceList"]
    ]
    assert "m5.large" in found
    assert len(found) == len(set(found)) < 20


def test_lists_come_in_pages(cloud: AwsCloud, ec2: Any, run: Callable[..., str]) -> None:
    ids = {run() for _ in range(3)}
    cloud.knobs(page=2)
    pages = list(ec2.get_paginator("describe_instances").paginate())
    assert [len(page["Reservations"]) for page in pages] == [2, 1]
    found = {one["Instances"][0]["InstanceId"] for page in pages for one in page["Reservations"]}
    assert found == ids


def test_a_reset_empties_the_account(cloud: AwsCloud, ec2: Any, run: Callable[..., str]) -> None:
    run()
    cloud.rule("DescribeInstances", code="InternalError", count=None)
    cloud.knobs(pending_s=5)
    cloud.reset()
    assert ec2.describe_instances()["Reservations"] == []
    assert cloud.inventory() == {}
    assert len(cloud.calls()) == 1
