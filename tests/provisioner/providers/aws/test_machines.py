"""Start, stop, hibernate, resize, terminate: by id or launch id, and never a stranger's machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import CapacityError, InvalidRequest, NotFound, ProviderError
from provisioner.providers.aws.instances import LISTING_LAG
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.contract import EndReason, Machine, MachineState
from tests.provisioner.providers.aws.cloud import Cloud, Rule
from tests.provisioner.providers.aws.conftest import Make, offer, request
from tests.provisioner.providers.aws.test_launch import NOTHING

S = MachineState
SPOT = PurchaseMode.SPOT
CALLS = ("TerminateInstances", "StopInstances", "StartInstances", "ModifyInstanceAttribute")


def only(provider: AwsProvider) -> Machine:
    (machine,) = provider.list().machines
    return machine


@pytest.mark.parametrize("by", ["id", "launch_id"])
def test_stop_start_and_terminate_are_idempotent(
    provider: AwsProvider, cloud: Cloud, by: str
) -> None:
    name = getattr(provider.launch(request()), by)
    steps: list[tuple[Callable[[str], None], MachineState, str]] = [
        (provider.stop, S.STOPPED, "StopInstances"),
        (provider.start, S.RUNNING, "StartInstances"),
        (provider.terminate, S.TERMINATED, "TerminateInstances"),
    ]
    for call, state, action in steps:
        call(name)
        call(name)
        assert only(provider).state is state
        assert len(cloud.told(action)) == 1
    ended = only(provider)
    assert ended.end_reason is EndReason.ASKED
    assert ended.run_ended_at is not None


def test_what_has_ended_cannot_start_again(provider: AwsProvider) -> None:
    machine = provider.launch(request())
    provider.terminate(machine.id)
    for call in (provider.start, provider.stop):
        with pytest.raises(InvalidRequest):
            call(machine.id)


@pytest.mark.parametrize("name", ["nobody", "i-0123456789abcdef0", "*", "?", "", "../x", "x" * 200])
def test_an_unknown_machine_is_not_found_and_no_pattern_matches_another(
    provider: AwsProvider, cloud: Cloud, name: str
) -> None:
    provider.launch(request())
    for call in (provider.terminate, provider.stop, provider.start):
        with pytest.raises(NotFound):
            call(name)
    assert not any(cloud.told(action) for action in CALLS)


def test_another_installations_machine_is_not_found(make: Make, cloud: Cloud) -> None:
    machine = make("a").launch(request())
    other = make("b")
    for name in (machine.id, machine.launch_id):
        with pytest.raises(NotFound):
            other.terminate(name)
    assert other.list().machines == ()
    assert cloud.told("TerminateInstances") == []


def test_a_machine_that_ec2_does_not_show_yet_is_not_gone(
    provider: AwsProvider, cloud: Cloud, clock: ManualClock
) -> None:
    machine = provider.launch(request())
    for name in (machine.id, machine.launch_id):
        cloud.rules.append(Rule("DescribeInstances", answer=lambda _: NOTHING))
        with pytest.raises(ProviderError, match="does not show it yet") as refused:
            provider.terminate(name)
        assert not isinstance(refused.value, NotFound)
    clock.set(clock.now() + LISTING_LAG + timedelta(seconds=1))
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: NOTHING))
    with pytest.raises(NotFound):
        provider.terminate(machine.id)


def test_a_machine_is_found_in_any_region_and_a_silent_one_hides_nothing(
    make: Make, cloud: Cloud
) -> None:
    regions = ("us-east-1", "us-west-2")
    machine = make(regions=regions).launch(request(offer=offer(zone="us-west-2a")))
    fresh = make(regions=regions)
    cloud.rules.append(
        Rule("DescribeInstances", "us-east-1", 100, lambda _: (400, "text/xml", b"<x/>"))
    )
    fresh.stop(machine.launch_id)
    with pytest.raises(ProviderError) as failed:
        fresh.stop("nobody")
    assert not isinstance(failed.value, NotFound)


def test_spot_can_only_be_terminated(provider: AwsProvider) -> None:
    machine = provider.launch(request(offer=offer(mode=SPOT)))
    for call in (provider.stop, provider.start):
        with pytest.raises(InvalidRequest, match="spot"):
            call(machine.id)
    assert only(provider).state is S.RUNNING


def test_a_spot_request_is_cancelled_before_its_machine_is_terminated(
    provider: AwsProvider, cloud: Cloud
) -> None:
    machine = provider.launch(request(offer=offer(mode=SPOT)))
    seen = described(machine.id, "<spotInstanceRequestId>sir-1</spotInstanceRequestId>")
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: seen))
    cloud.fail("CancelSpotInstanceRequests", "InvalidSpotInstanceRequestID.NotFound")
    provider.terminate(machine.id)
    actions = [call.action for call in cloud.calls]
    assert actions.index("CancelSpotInstanceRequests") < actions.index("TerminateInstances")
    assert only(provider).state is S.TERMINATED


def test_a_machine_is_not_terminated_while_its_request_could_make_another(
    provider: AwsProvider, cloud: Cloud
) -> None:
    machine = provider.launch(request(offer=offer(mode=SPOT)))
    seen = described(machine.id, "<spotInstanceRequestId>sir-1</spotInstanceRequestId>")
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: seen))
    cloud.fail("CancelSpotInstanceRequests", "RequestLimitExceeded", status=503, count=100)
    with pytest.raises(ProviderError):
        provider.terminate(machine.id)
    assert cloud.told("TerminateInstances") == []


def test_no_capacity_to_start_again_leaves_it_stopped(provider: AwsProvider, cloud: Cloud) -> None:
    machine = provider.launch(request())
    provider.stop(machine.id)
    cloud.fail("StartInstances", "InsufficientInstanceCapacity", status=500)
    with pytest.raises(CapacityError):
        provider.start(machine.id)
    assert only(provider).state is S.STOPPED


def test_the_wrong_moment_is_no_lasting_refusal(provider: AwsProvider, cloud: Cloud) -> None:
    machine = provider.launch(request())
    cloud.fail("StopInstances", "IncorrectInstanceState")
    with pytest.raises(ProviderError) as failed:
        provider.stop(machine.id)
    assert type(failed.value) is ProviderError


def test_a_stopped_machine_is_resized_in_place(provider: AwsProvider) -> None:
    machine = provider.launch(request(volume_id="v"))
    provider.stop(machine.id)
    larger = offer("m5.2xlarge")
    provider.resize(machine.id, larger)
    provider.resize(machine.id, larger)
    provider.start(machine.id)
    resized = only(provider)
    assert (resized.id, resized.offer_id, resized.state) == (machine.id, larger.id, S.RUNNING)


@pytest.mark.parametrize(
    ("other", "stopped"),
    [
        (offer("m5.2xlarge"), False),
        (offer("m6g.large"), True),
        (offer("g5.xlarge"), True),
        (offer("m5.2xlarge", "us-east-1b"), True),
        (offer("m5.2xlarge", mode=SPOT), True),
        (offer("m5.huge"), True),
    ],
    ids=["running", "architecture", "gpu", "zone", "mode", "no-such-type"],
)
def test_what_needs_another_machine_is_not_resized(
    provider: AwsProvider, cloud: Cloud, other: object, stopped: bool
) -> None:
    machine = provider.launch(request())
    if stopped:
        provider.stop(machine.id)
    with pytest.raises(InvalidRequest):
        provider.resize(machine.id, other)  # type: ignore[arg-type]
    assert cloud.told("ModifyInstanceAttribute") == []


def test_only_machines_that_were_made_for_it_hibernate(make: Make, cloud: Cloud) -> None:
    plain, able = make(), make(hibernation=True)
    assert (plain.capabilities.hibernate, able.capabilities.hibernate) == (False, True)
    machine = plain.launch(request("plain"))
    for provider in (plain, able):
        with pytest.raises(InvalidRequest):
            provider.hibernate(machine.id)
    sleeper = able.launch(request("sleeper"))
    asked = cloud.told("RunInstances")[1]
    assert asked["HibernationOptions.Configured"] == "true"
    sizes = [
        int(form["BlockDeviceMapping.1.Ebs.VolumeSize"]) for form in cloud.told("RunInstances")
    ]
    assert sizes[1] >= sizes[0] + 8  # m5.large has 8 GiB to write down
    able.hibernate(sleeper.id)
    assert cloud.told("StopInstances")[0]["Hibernate"] == "true"
    able.hibernate(sleeper.id)
    assert len(cloud.told("StopInstances")) == 1


def described(instance_id: str, more: str) -> tuple[int, str, bytes]:
    """An answer of `DescribeInstances` with what moto does not tell."""
    body = (
        '<DescribeInstancesResponse xmlns="x"><requestId>r</requestId><reservationSet><item>'
        f"<instancesSet><item><instanceId>{instance_id}</instanceId><instanceType>m5.large"
        "</instanceType><instanceState><name>running</name></instanceState><placement>"
        "<availabilityZone>us-east-1a</availabilityZone></placement><launchTime>"
        f"2026-12-01T10:00:00.000Z</launchTime><instanceLifecycle>spot</instanceLifecycle>{more}"
        "</item></instancesSet></item></reservationSet></DescribeInstancesResponse>"
    )
    return 200, "text/xml", body.encode()
