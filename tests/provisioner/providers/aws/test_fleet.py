"""Spot by EC2 Fleet: one machine of several offers, and nothing left of the fleet."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from policies.world import PurchaseMode
from provisioner.errors import AuthError, CapacityError, InvalidRequest, QuotaError
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.aws.session import ATTEMPTS
from provisioner.providers.contract import LaunchRequest, Leftover
from tests.provisioner.providers.aws.cloud import XML, Answer, Cloud, Rule
from tests.provisioner.providers.aws.conftest import Make, offer, request

SPOT = PurchaseMode.SPOT
FIRST = offer("g5.xlarge", mode=SPOT)
OTHERS = (
    offer("g5.2xlarge", mode=SPOT),
    offer("g4dn.xlarge", "us-east-1b", SPOT),
    offer("m5.large", mode=SPOT),
    offer("g5g.xlarge", mode=SPOT),
)


def asked(launch_id: str = "one", **changes: object) -> LaunchRequest:
    return request(launch_id, **{"offer": FIRST, "alternatives": OTHERS, **changes})


def refused(*codes: str) -> Answer:
    errors = "".join(
        f"<item><errorCode>{code}</errorCode><errorMessage>as told</errorMessage></item>"
        for code in codes
    )
    body = f"<CreateFleetResponse xmlns='x'><errorSet>{errors}</errorSet></CreateFleetResponse>"
    return 200, XML, body.encode()


def test_one_machine_is_made_of_those_that_boot_the_same_image(
    provider: AwsProvider, cloud: Cloud
) -> None:
    assert provider.capabilities.alternatives
    machine = provider.launch(asked())
    assert machine.offer_id in {FIRST.id, OTHERS[0].id, OTHERS[1].id}
    (listed,) = provider.list().machines
    assert (listed.id, listed.launch_id, listed.offer_id) == (machine.id, "one", machine.offer_id)
    assert listed.tags == (("job", "j1"),)
    (fleet,) = cloud.told("CreateFleet")
    assert fleet["Type"] == "instant"
    assert fleet["SpotOptions.AllocationStrategy"] == "price-capacity-optimized"
    assert fleet["TargetCapacitySpecification.TotalTargetCapacity"] == "1"
    types = {value for name, value in fleet.items() if name.endswith("InstanceType")}
    assert types == {"g5.xlarge", "g5.2xlarge", "g4dn.xlarge"}
    assert cloud.told("RunInstances") == []
    (template,) = cloud.told("CreateLaunchTemplate")
    assert "NetworkInterface.1.SubnetId" not in json.dumps(template)
    assert template["LaunchTemplateData.MetadataOptions.HttpTokens"] == "required"


def templates(provider: AwsProvider) -> list[Leftover]:
    """Those that are left over; moto does not put a fleet's machine into its security group."""
    return [one for one in provider.list().leftovers if one.kind == "launch-template"]


def test_nothing_is_left_of_the_fleet(provider: AwsProvider) -> None:
    provider.launch(asked())
    assert templates(provider) == []


def test_a_repeated_launch_gives_the_same_machine(make: Make, cloud: Cloud) -> None:
    first = make().launch(asked())
    assert make().launch(asked()).id == first.id
    dearer = replace(OTHERS[0], price_per_hour=OTHERS[0].price_per_hour * 2)
    assert make().launch(asked(alternatives=(dearer, *OTHERS[1:]))).id == first.id
    for changes in ({"tags": ()}, {"alternatives": OTHERS[:1]}):
        with pytest.raises(InvalidRequest):
            make().launch(asked(**changes))
    assert len(cloud.told("CreateFleet")) == 1


def test_a_lost_answer_makes_one_machine(provider: AwsProvider, cloud: Cloud) -> None:
    cloud.lose_reply("CreateFleet", count=2)
    machine = provider.launch(asked())
    assert [one.id for one in provider.list().machines] == [machine.id]
    assert 1 < len(cloud.told("CreateFleet")) <= ATTEMPTS


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (["InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded"], CapacityError),
        (["MaxSpotInstanceCountExceeded"], QuotaError),
        (["InsufficientInstanceCapacity", "UnauthorizedOperation"], AuthError),
        (["UnfulfillableCapacity"], CapacityError),
        ([], CapacityError),
    ],
)
def test_why_nothing_could_be_had(
    provider: AwsProvider, cloud: Cloud, codes: list[str], kind: type[Exception]
) -> None:
    cloud.rules.append(Rule("CreateFleet", answer=lambda _: refused(*codes)))
    with pytest.raises(kind):
        provider.launch(asked())
    listing = provider.list()
    assert listing.machines == ()
    assert {one.kind for one in listing.leftovers} == {"security-group"}


def test_a_template_that_could_not_be_deleted_is_a_leftover(
    provider: AwsProvider, cloud: Cloud
) -> None:
    cloud.fail("DeleteLaunchTemplate", "UnauthorizedOperation", status=403)
    machine = provider.launch(asked())
    (template,) = templates(provider)
    provider.delete_leftover(template)
    cloud.fail("DeleteLaunchTemplate", "InvalidLaunchTemplateName.NotFoundException")
    provider.delete_leftover(template)
    assert templates(provider) == []
    assert [one.id for one in provider.list().machines] == [machine.id]


def test_a_template_that_a_crash_left_is_used(provider: AwsProvider, cloud: Cloud) -> None:
    cloud.fail("CreateFleet", "UnauthorizedOperation", status=403)
    cloud.fail("DeleteLaunchTemplate", "UnauthorizedOperation", status=403)
    with pytest.raises(AuthError):
        provider.launch(asked())
    assert provider.launch(asked()).launch_id == "one"
    assert templates(provider) == []


def test_a_home_that_is_there_binds_the_choice_to_its_zone(
    provider: AwsProvider, cloud: Cloud
) -> None:
    provider.terminate(provider.launch(request("before", volume_id="v")).id)
    provider.launch(asked(volume_id="v"))
    (fleet,) = cloud.told("CreateFleet")
    types = {value for name, value in fleet.items() if name.endswith("InstanceType")}
    assert types == {"g5.xlarge", "g5.2xlarge"}


def test_a_new_home_is_made_where_the_machine_is(provider: AwsProvider) -> None:
    machine = provider.launch(asked(volume_id="v"))
    (volume,) = provider.list().volumes
    assert volume.zone == machine.offer_id.split("/")[2]


def test_alternatives_of_another_mode_are_refused(provider: AwsProvider) -> None:
    with pytest.raises(InvalidRequest, match="differ"):
        provider.launch(asked(alternatives=(offer("g5.2xlarge"),)))


def test_it_can_be_switched_off(make: Make, cloud: Cloud) -> None:
    provider = make(spot_allocation="single")
    assert not provider.capabilities.alternatives
    assert provider.launch(asked()).offer_id == FIRST.id
    assert cloud.told("CreateFleet") == []
