"""Listing: page by page, region by region, and nobody waits for a silent one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from provisioner.clock import ManualClock
from provisioner.errors import AuthError, ProviderError
from provisioner.providers.aws import listing
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.contract import EndReason, MachineState
from tests.contract.machines import wait_until
from tests.provisioner.providers.aws.cloud import Cloud, Form, Rule
from tests.provisioner.providers.aws.conftest import NOW, Make, offer, request
from tests.provisioner.providers.aws.test_machines import described

S = MachineState
REGIONS = ("us-east-1", "us-west-2")


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Holds answers back until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_regions_are_listed_together(make: Make) -> None:
    provider = make(regions=REGIONS)
    here = provider.launch(request("here", volume_id="v"))
    there = provider.launch(request("there", offer=offer(zone="us-west-2b"), volume_id="w"))
    found = provider.list()
    assert {machine.id for machine in found.machines} == {here.id, there.id}
    assert {volume.zone for volume in found.volumes} == {"us-east-1a", "us-west-2b"}
    assert found.silent_regions == frozenset()


def test_all_pages_are_read(provider: AwsProvider, cloud: Cloud) -> None:
    def page(form: Form) -> tuple[int, str, bytes]:
        first = "NextToken" not in form
        status, kind, body = described(f"i-0123456789abcde0{int(first)}", tagged("one"))
        if first:
            body = body.replace(b"</Describe", b"<nextToken>second</nextToken></Describe")
        return status, kind, body

    cloud.rules.append(Rule("DescribeInstances", count=2, answer=page))
    assert len(provider.list().machines) == 2
    first, second = cloud.told("DescribeInstances")
    assert ("NextToken" in first, second["NextToken"]) == (False, "second")
    assert "MaxResults" in first


def test_a_region_that_does_not_answer_in_time_is_named_and_the_others_are_told(
    make: Make, cloud: Cloud, hold: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = make(regions=REGIONS)
    here = provider.launch(request("here"))
    provider.launch(request("there", offer=offer(zone="us-west-2a")))
    monkeypatch.setattr(listing, "ANSWER_WITHIN_S", 2.0)
    cloud.rules.append(Rule("DescribeInstances", "us-west-2", hold=hold))
    found = provider.list()
    assert [machine.id for machine in found.machines] == [here.id]
    assert found.silent_regions == {"us-west-2"}
    asked = len(cloud.told("DescribeInstances"))
    assert provider.list().silent_regions == {"us-west-2"}
    # It is not asked again on top of the question that is open.
    assert len(cloud.told("DescribeInstances")) == asked + 1
    hold.set()
    wait_until(lambda: provider.list().silent_regions == frozenset())
    assert len(provider.list().machines) == 2


def test_a_region_that_fails_is_named_and_the_others_are_told(make: Make, cloud: Cloud) -> None:
    provider = make(regions=REGIONS)
    provider.launch(request())
    cloud.rules.append(
        Rule("DescribeVolumes", "us-west-2", answer=lambda _: (400, "text/xml", b"<x/>"))
    )
    found = provider.list()
    assert (len(found.machines), found.silent_regions) == (1, {"us-west-2"})


def test_when_no_region_answers_it_says_why(make: Make, cloud: Cloud) -> None:
    cloud.fail("DescribeInstances", "ExpiredToken", status=403, count=100)
    with pytest.raises(AuthError, match="expired"):
        make(regions=REGIONS).list()


def test_half_an_answer_is_no_answer(provider: AwsProvider, cloud: Cloud) -> None:
    provider.launch(request())
    status, kind, body = described("i-1", tagged("one"))
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: (status, kind, body[:-80])))
    with pytest.raises(ProviderError):
        provider.list()


def test_throttling_of_a_listing_passes_unseen(provider: AwsProvider, cloud: Cloud) -> None:
    provider.launch(request())
    cloud.fail("DescribeInstances", "RequestLimitExceeded", status=503, count=3)
    assert len(provider.list().machines) == 1


def test_a_spot_machine_that_was_taken_back_ends_when_that_is_seen_first(
    provider: AwsProvider, cloud: Cloud, clock: ManualClock
) -> None:
    more = tagged("one") + (
        "<reason>Server.SpotInstanceTermination</reason><stateReason>"
        "<code>Server.SpotInstanceTermination</code><message>taken</message></stateReason>"
    )
    status, kind, body = described("i-1", more)
    body = body.replace(b"<name>running", b"<name>terminated")
    cloud.rules.append(Rule("DescribeInstances", count=2, answer=lambda _: (status, kind, body)))
    (ended,) = provider.list().machines
    assert ended.end_reason is EndReason.RECLAIMED
    assert ended.message == "taken"
    assert ended.run_started_at == datetime(2026, 12, 1, 10, tzinfo=UTC)
    assert ended.run_ended_at == NOW
    clock.set(NOW + timedelta(minutes=1))
    assert provider.list().machines == (ended,)


def test_what_bears_the_tag_but_was_never_launched_is_left_alone(
    provider: AwsProvider, cloud: Cloud
) -> None:
    seen = described("i-1", "")
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: seen))
    assert provider.list().machines == ()


def test_the_group_is_left_over_after_the_last_machine_and_then_gone(
    provider: AwsProvider, cloud: Cloud
) -> None:
    before = provider.list()
    first, second = (provider.launch(request(name)) for name in ("one", "two"))
    assert provider.list().leftovers == ()
    provider.terminate(first.id)
    assert provider.list().leftovers == ()
    provider.terminate(second.id)
    (group,) = provider.list().leftovers
    assert group.kind == "security-group"
    provider.delete_leftover(group)
    provider.delete_leftover(group)
    assert provider.list().leftovers == before.leftovers == ()
    provider.launch(request("three"))  # and is made again when it is needed
    assert len(cloud.told("CreateSecurityGroup")) == 2


def test_a_group_that_is_needed_again_is_kept(provider: AwsProvider, cloud: Cloud) -> None:
    provider.terminate(provider.launch(request()).id)
    (group,) = provider.list().leftovers
    cloud.fail("DeleteSecurityGroup", "DependencyViolation")
    provider.delete_leftover(group)
    assert provider.list().leftovers == (group,)


def test_a_door_that_somebody_opened_is_shut(make: Make, cloud: Cloud) -> None:
    make().launch(request())
    group = cloud.told("RunInstances")[0]["NetworkInterface.1.SecurityGroupId.1"]
    console = boto3.client("ec2", "us-east-1", endpoint_url=cloud.url)
    console.authorize_security_group_ingress(
        GroupId=group, IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0"
    )
    make().launch(request("two"))
    (found,) = console.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert found["IpPermissions"] == []


def tagged(launch_id: str) -> str:
    return f"<tagSet><item><key>roost:launch</key><value>{launch_id}</value></item></tagSet>"
