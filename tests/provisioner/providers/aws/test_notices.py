"""Notices: what EventBridge put into the queue, each at least once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from provisioner.errors import AuthError
from provisioner.providers.aws.notices import REBALANCE, RECLAIM
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.contract import Notice, NoticeKind
from tests.provisioner.providers.aws.cloud import JSON, Cloud, Rule
from tests.provisioner.providers.aws.conftest import Make

AT = datetime(2026, 12, 1, 11, 58, tzinfo=UTC)
REGION = "us-east-1"


@pytest.fixture
def queue(cloud: Cloud, installation: str) -> str:
    sqs = boto3.client("sqs", REGION, endpoint_url=cloud.url)
    return str(sqs.create_queue(QueueName=f"notices-{installation}")["QueueUrl"])


@pytest.fixture
def listener(make: Make, queue: str) -> AwsProvider:
    return make(interruption_queues={REGION: queue})


def put(cloud: Cloud, queue: str, *bodies: object) -> None:
    sqs = boto3.client("sqs", REGION, endpoint_url=cloud.url)
    for body in bodies:
        text = body if isinstance(body, str) else json.dumps(body)
        sqs.send_message(QueueUrl=queue, MessageBody=text)


def event(kind: str, instance: str = "i-1", **detail: str) -> dict[str, object]:
    return {
        "detail-type": kind,
        "source": "aws.ec2",
        "time": "2026-12-01T11:58:00Z",
        "region": REGION,
        "detail": {"instance-id": instance, **detail},
    }


def test_a_warning_has_a_deadline_and_advice_has_none(
    listener: AwsProvider, cloud: Cloud, queue: str
) -> None:
    warning = {"instance-action": "terminate"}
    put(cloud, queue, event(REBALANCE), event(RECLAIM, **warning))
    assert sorted(listener.notices(), key=lambda one: one.kind) == [
        Notice("i-1", NoticeKind.REBALANCE, AT),
        Notice("i-1", NoticeKind.RECLAIM, AT, AT + timedelta(seconds=120)),
    ]


def test_a_notice_is_told_once_when_all_goes_well(
    listener: AwsProvider, cloud: Cloud, queue: str
) -> None:
    put(cloud, queue, event(RECLAIM))
    assert len(listener.notices()) == 1
    assert listener.notices() == []
    sqs = boto3.client("sqs", REGION, endpoint_url=cloud.url)
    told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert int(told["ApproximateNumberOfMessagesNotVisible"]) == 0


def test_a_notice_comes_again_when_the_control_plane_falls_after_asking(
    make: Make, listener: AwsProvider, cloud: Cloud, queue: str
) -> None:
    sqs = boto3.client("sqs", REGION, endpoint_url=cloud.url)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "0"})
    put(cloud, queue, event(RECLAIM))
    assert listener.notices()
    assert cloud.told("DeleteMessageBatch") == []
    assert make(interruption_queues={REGION: queue}).notices()


def test_many_are_told_at_once(listener: AwsProvider, cloud: Cloud, queue: str) -> None:
    put(cloud, queue, *(event(RECLAIM, f"i-{n}") for n in range(25)))
    assert {one.machine_id for one in listener.notices()} == {f"i-{n}" for n in range(25)}
    assert listener.notices() == []


def test_other_events_and_nonsense_are_passed_over(
    listener: AwsProvider, cloud: Cloud, queue: str
) -> None:
    change = event("EC2 Instance State-change Notification", state="terminated")
    put(cloud, queue, change, "no json", "[]", {"detail-type": RECLAIM}, event(RECLAIM, "i-2"))
    assert [one.machine_id for one in listener.notices()] == ["i-2"]
    assert listener.notices() == []


def test_without_queues_nothing_is_asked(provider: AwsProvider, cloud: Cloud) -> None:
    assert list(provider.notices()) == []
    assert cloud.calls == []


def test_a_queue_that_cannot_be_read_says_so(listener: AwsProvider, cloud: Cloud) -> None:
    denied = b'{"__type": "com.amazonaws.sqs#AccessDeniedException", "message": "no"}'
    cloud.rules.append(Rule("ReceiveMessage", answer=lambda _: (400, JSON, denied)))
    with pytest.raises(AuthError):
        listener.notices()
