"""The limiter: bursts pass, then calls are spread, and none waits for long."""

from __future__ import annotations

import pytest

from provisioner.errors import ThrottledError
from provisioner.providers.aws.limiter import (
    LONGEST_WAIT_S,
    RATES,
    ActionClass,
    Limiter,
    action_class,
)

LAUNCH = RATES[ActionClass.LAUNCH]


class Time:
    """A monotonic clock that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def limiter(time: Time) -> Limiter:
    return Limiter(lambda: time.now, time.sleep)


def test_a_burst_passes_and_the_next_call_waits_for_its_token(limiter: Limiter, time: Time) -> None:
    for _ in range(int(LAUNCH.burst)):
        limiter.wait("ec2", "us-east-1", "RunInstances")
    assert time.slept == []
    limiter.wait("ec2", "us-east-1", "RunInstances")
    assert time.slept == [pytest.approx(1 / LAUNCH.per_s)]


def test_calls_over_a_long_time_are_never_more_than_the_rate_allows(
    limiter: Limiter, time: Time
) -> None:
    began, calls = time.now, 200
    for _ in range(calls):
        limiter.wait("ec2", "us-east-1", "RunInstances")
    assert time.now - began >= (calls - LAUNCH.burst) / LAUNCH.per_s - 1e-6


def test_tokens_come_back_with_time_and_no_more_than_a_burst(limiter: Limiter, time: Time) -> None:
    limiter.wait("ec2", "us-east-1", "RunInstances")
    time.now += 3600
    for _ in range(int(LAUNCH.burst)):
        limiter.wait("ec2", "us-east-1", "RunInstances")
    assert time.slept == []
    limiter.wait("ec2", "us-east-1", "RunInstances")
    assert len(time.slept) == 1


def test_regions_and_classes_have_buckets_of_their_own(limiter: Limiter, time: Time) -> None:
    for _ in range(int(LAUNCH.burst)):
        limiter.wait("ec2", "us-east-1", "RunInstances")
    limiter.wait("ec2", "eu-west-1", "RunInstances")
    limiter.wait("ec2", "us-east-1", "TerminateInstances")
    limiter.wait("ec2", "us-east-1", "DescribeInstances")
    assert time.slept == []
    limiter.wait("ec2", "us-east-1", "StartInstances")  # shares the bucket of launches
    assert len(time.slept) == 1


def test_who_would_wait_too_long_is_told_when_to_come_back() -> None:
    limiter = Limiter(lambda: 0.0, lambda _: None)  # waiting threads beside each other
    allowed = int(LAUNCH.burst + LONGEST_WAIT_S * LAUNCH.per_s)
    for _ in range(allowed):
        limiter.wait("ec2", "us-east-1", "RunInstances")
    with pytest.raises(ThrottledError) as refused:
        limiter.wait("ec2", "us-east-1", "RunInstances")
    assert refused.value.retry_after_s == pytest.approx(LONGEST_WAIT_S + 1 / LAUNCH.per_s)
    with pytest.raises(ThrottledError) as again:  # a refused call takes no token
        limiter.wait("ec2", "us-east-1", "RunInstances")
    assert again.value.retry_after_s == refused.value.retry_after_s


@pytest.mark.parametrize(
    ("service", "action", "kind"),
    [
        ("ec2", "CreateFleet", ActionClass.LAUNCH),
        ("ec2", "CreateVolume", ActionClass.CHANGE),
        ("ec2", "DescribeInstances", ActionClass.READ),
        ("sqs", "ReceiveMessage", ActionClass.READ),
        ("sqs", "DeleteMessageBatch", ActionClass.CHANGE),
        ("pricing", "GetProducts", ActionClass.PRICES),
    ],
)
def test_actions_have_a_class(service: str, action: str, kind: ActionClass) -> None:
    assert action_class(service, action) is kind
