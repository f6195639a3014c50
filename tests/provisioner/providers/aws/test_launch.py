"""Launching: one machine for one launch id, closed to the world, whatever happens on the way."""

from __future__ import annotations

import base64
import gzip
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from policies.world import PurchaseMode
from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.aws.session import ATTEMPTS
from provisioner.providers.contract import Leftover, MachineState
from tests.provisioner.providers.aws.cloud import XML, Cloud, Rule
from tests.provisioner.providers.aws.conftest import Make, offer, request

SPOT = PurchaseMode.SPOT
NOTHING = (
    200,
    XML,
    b'<DescribeInstancesResponse xmlns="x"><requestId>r</requestId><reservationSet/>'
    b"</DescribeInstancesResponse>",
)


def test_a_machine_is_made_as_asked_and_nobody_can_call_in(
    provider: AwsProvider, cloud: Cloud, installation: str
) -> None:
    machine = provider.launch(request())
    assert (machine.launch_id, machine.tags) == ("one", (("job", "j1"),))
    assert machine.offer_id == offer().id
    (asked,) = cloud.told("RunInstances")
    assert asked["ClientToken"] == "one"
    assert (asked["MinCount"], asked["MaxCount"]) == ("1", "1")
    assert asked["MetadataOptions.HttpTokens"] == "required"
    assert asked["MetadataOptions.HttpPutResponseHopLimit"] == "1"
    assert asked["BlockDeviceMapping.1.Ebs.Encrypted"] == "true"
    assert asked["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
    assert base64.b64decode(asked["UserData"]) == b"#!/bin/sh\n"
    assert "KeyName" not in asked
    assert "InstanceMarketOptions.MarketType" not in asked
    (group,) = cloud.told("CreateSecurityGroup")
    assert group["GroupName"] == f"roost-{installation}"
    assert cloud.told("AuthorizeSecurityGroupIngress") == []


def test_spot_is_asked_for_once_and_without_a_price(provider: AwsProvider, cloud: Cloud) -> None:
    machine = provider.launch(request(offer=offer(mode=SPOT)))
    assert machine.offer_id == offer(mode=SPOT).id
    (asked,) = cloud.told("RunInstances")
    assert asked["InstanceMarketOptions.SpotOptions.SpotInstanceType"] == "one-time"
    assert not any("MaxPrice" in name for name in asked)


def test_a_repeated_launch_gives_the_same_machine(make: Make, cloud: Cloud) -> None:
    first = make().launch(request())
    again = make().launch(request())
    assert again.id == first.id
    assert len(cloud.told("RunInstances")) == 1


def test_a_repeated_launch_that_ec2_does_not_show_yet_gives_the_same_machine(
    make: Make, cloud: Cloud
) -> None:
    first = make().launch(request())
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: NOTHING))
    assert make().launch(request()).id == first.id
    assert len(make().list().machines) == 1


def test_a_launch_repeated_after_the_end_makes_no_other_machine(
    provider: AwsProvider, cloud: Cloud
) -> None:
    first = provider.launch(request())
    provider.terminate(first.id)
    again = provider.launch(request())
    assert (again.id, again.state) == (first.id, MachineState.TERMINATED)
    assert len(cloud.told("RunInstances")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"user_data": "#!/bin/bash\n"},
        {"tags": ()},
        {"volume_id": "v"},
        {"offer": offer("m5.xlarge")},
        {"offer": offer(mode=SPOT)},
    ],
    ids=["user-data", "tags", "volume", "type", "mode"],
)
def test_other_parameters_under_the_same_id_are_refused(
    provider: AwsProvider, cloud: Cloud, changes: dict[str, object]
) -> None:
    provider.launch(request())
    with pytest.raises(InvalidRequest):
        provider.launch(request(**changes))
    assert len(cloud.told("RunInstances")) == 1


def test_other_parameters_are_refused_too_while_ec2_does_not_show_the_first(
    provider: AwsProvider, cloud: Cloud
) -> None:
    provider.launch(request())
    cloud.rules.append(Rule("DescribeInstances", count=2, answer=lambda _: NOTHING))
    with pytest.raises(InvalidRequest):
        provider.launch(request(tags=()))
    assert len(provider.list().machines) == 1


def test_a_setting_that_changed_between_two_calls_makes_no_other_launch(
    make: Make, cloud: Cloud
) -> None:
    first = make().launch(request())
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: NOTHING))
    assert make(root_gib=99).launch(request()).id == first.id
    assert len(cloud.told("RunInstances")) == 2  # the second one was a mismatch


def test_the_price_of_an_offer_may_change_between_two_calls(provider: AwsProvider) -> None:
    first = provider.launch(request())
    dearer = replace(offer(), price_per_hour=offer().price_per_hour * 2)
    assert provider.launch(request(offer=dearer)).id == first.id


def test_calls_at_once_make_one_machine(provider: AwsProvider) -> None:
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: provider.launch(request()).id, range(8)))
        others = list(pool.map(lambda n: provider.launch(request(f"m{n}")).id, range(4)))
        listings = list(pool.map(lambda _: provider.list(), range(4)))
    assert (len(set(same)), len(set(others))) == (1, 4)
    assert all(len(listing.machines) == 5 for listing in listings)


def test_a_lost_answer_is_asked_for_again_and_makes_one_machine(
    provider: AwsProvider, cloud: Cloud
) -> None:
    cloud.lose_reply("RunInstances", count=2)
    machine = provider.launch(request())
    assert len(cloud.told("RunInstances")) == 3
    assert [one.id for one in provider.list().machines] == [machine.id]


def test_when_no_answer_comes_at_all_it_may_have_happened(
    provider: AwsProvider, cloud: Cloud
) -> None:
    cloud.lose_reply("RunInstances", count=ATTEMPTS)
    with pytest.raises(Ambiguous):
        provider.launch(request())
    cloud.rules.append(Rule("DescribeInstances", answer=lambda _: NOTHING))
    with pytest.raises(ProviderError, match="does not show it yet"):
        provider.terminate("one")
    (machine,) = provider.list().machines
    assert provider.launch(request()).id == machine.id
    assert len(cloud.told("RunInstances")) == ATTEMPTS


@pytest.mark.parametrize(
    ("code", "status", "kind", "calls"),
    [
        ("InsufficientInstanceCapacity", 500, CapacityError, 1),
        ("Unsupported", 400, CapacityError, 1),
        ("VcpuLimitExceeded", 400, QuotaError, 1),
        ("MaxSpotInstanceCountExceeded", 400, QuotaError, 1),
        ("UnauthorizedOperation", 403, AuthError, 1),
        ("RequestLimitExceeded", 503, ThrottledError, ATTEMPTS),
        ("InternalError", 500, Ambiguous, ATTEMPTS),
    ],
)
def test_refusals_are_told_at_once_and_only_what_passes_is_tried_again(
    provider: AwsProvider,
    cloud: Cloud,
    code: str,
    status: int,
    kind: type[ProviderError],
    calls: int,
) -> None:
    cloud.fail("RunInstances", code, status=status, count=100)
    with pytest.raises(kind):
        provider.launch(request())
    assert len(cloud.told("RunInstances")) == calls
    cloud.rules.clear()
    assert provider.list().machines == ()


def test_a_refusal_after_throttling_is_clear_and_one_after_silence_is_not(
    provider: AwsProvider, cloud: Cloud
) -> None:
    cloud.fail("RunInstances", "RequestLimitExceeded", status=503)
    cloud.fail("RunInstances", "SomethingNew")
    with pytest.raises(ProviderError) as clear:
        provider.launch(request())
    assert type(clear.value) is ProviderError
    cloud.lose_reply("RunInstances")
    cloud.fail("RunInstances", "SomethingNew")
    with pytest.raises(Ambiguous):
        provider.launch(request("two"))


def test_throttling_that_passes_is_not_felt(provider: AwsProvider, cloud: Cloud) -> None:
    cloud.fail("RunInstances", "RequestLimitExceeded", status=503, count=3)
    assert provider.launch(request()).launch_id == "one"


def test_a_group_that_somebody_deleted_is_made_again(provider: AwsProvider, cloud: Cloud) -> None:
    first = provider.launch(request())
    provider.terminate(first.id)
    (group,) = provider.list().leftovers
    cloud.fail("RunInstances", "InvalidGroup.NotFound")
    assert provider.launch(request("two")).launch_id == "two"
    assert group.kind == "security-group"


@pytest.mark.parametrize(
    "wrong",
    [
        replace(offer(), id=offer().id + "x"),
        replace(offer(), zone="us-east-1b"),
        offer(zone="eu-west-1a"),
        offer(mode=PurchaseMode.RESERVED),
        offer("m5.huge"),
        offer("g6f.large"),
        offer(zone="us-east-1-bos-1a"),
    ],
    ids=["id", "zone", "region", "reserved", "no-such-type", "share-of-a-gpu", "no-subnet"],
)
def test_what_is_not_sold_is_refused(provider: AwsProvider, cloud: Cloud, wrong: object) -> None:
    with pytest.raises(InvalidRequest):
        provider.launch(request(offer=wrong))
    assert cloud.told("RunInstances") == []


@pytest.mark.parametrize("bad", ["", "*", "a b", "../x", "x" * 65])
def test_a_senseless_launch_id_is_refused(provider: AwsProvider, cloud: Cloud, bad: str) -> None:
    with pytest.raises(InvalidRequest):
        provider.launch(request(bad))
    assert cloud.calls == []


def test_a_long_script_is_compressed_and_a_hopeless_one_refused(
    provider: AwsProvider, cloud: Cloud
) -> None:
    script = "#!/bin/sh\n" + "echo a long script\n" * 2000
    provider.launch(request(user_data=script))
    (asked,) = cloud.told("RunInstances")
    assert gzip.decompress(base64.b64decode(asked["UserData"])).decode() == script
    noise = hashlib.shake_256(b"noise").hexdigest(60000)
    with pytest.raises(InvalidRequest, match="too long"):
        provider.launch(request("two", user_data=noise))


def test_an_image_of_the_architecture_is_booted(make: Make, cloud: Cloud) -> None:
    provider = make(image_gpu="ami-0000000000000dead")
    provider.launch(request("x86"))
    provider.launch(request("arm", offer=offer("m6g.large")))
    x86, arm = (form["ImageId"] for form in cloud.told("RunInstances"))
    assert x86 != arm
    with pytest.raises(ProviderError):
        provider.launch(request("gpu", offer=offer("g5.xlarge")))


def test_an_image_that_is_not_there_says_which_setting_names_it(make: Make) -> None:
    with pytest.raises(InvalidRequest, match=r"aws\.image"):
        make(image="/aws/service/none/such").launch(request())


def test_without_credentials_it_says_what_to_do(
    provider: AwsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(AuthError, match="credentials"):
        provider.launch(request())


def test_an_unreachable_cloud_has_done_nothing(make: Make) -> None:
    provider = make(endpoint_url="http://127.0.0.1:9")
    with pytest.raises(ProviderError, match="cannot be reached") as failed:
        provider.launch(request())
    assert type(failed.value) is ProviderError


def test_subnets_can_be_chosen(make: Make, cloud: Cloud, provider: AwsProvider) -> None:
    provider.launch(request())
    subnet = cloud.told("RunInstances")[0]["NetworkInterface.1.SubnetId"]
    chosen = make(subnets={"us-east-1a": subnet}, public_addresses=False)
    chosen.launch(request("two"))
    asked = cloud.told("RunInstances")[1]
    assert asked["NetworkInterface.1.SubnetId"] == subnet
    assert asked["NetworkInterface.1.AssociatePublicIpAddress"] == "false"
    with pytest.raises(InvalidRequest, match="subnet"):
        chosen.launch(request("three", offer=offer(zone="us-east-1b")))


def test_leftover_kinds_of_others_are_refused(provider: AwsProvider) -> None:
    with pytest.raises(InvalidRequest):
        provider.delete_leftover(Leftover("address", "us-east-1/a"))
