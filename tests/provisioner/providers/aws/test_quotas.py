"""Quotas: the limits of the account, and what everybody's machines use of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import boto3
import pytest

from policies.globs import matches_glob
from policies.world import PurchaseMode, Quota, QuotaUnit
from provisioner.clock import ManualClock
from provisioner.errors import ProviderError
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.aws.quotas import CLASSES
from tests.provisioner.providers.aws.cloud import Cloud, Rule
from tests.provisioner.providers.aws.conftest import Make, offer, request
from tests.provisioner.providers.aws.prices import quotas

SPOT, ON_DEMAND = PurchaseMode.SPOT, PurchaseMode.ON_DEMAND
LIMITS = {"L-1216C47A": 32.0, "L-DB2E81BA": 0.0, "L-34B43A08": 64.0, "L-0263D0A3": 5.0}


@pytest.fixture(autouse=True)
def account(cloud: Cloud) -> None:
    """Nobody else's machines."""
    cloud.reset()
    cloud.always["ListServiceQuotas"] = lambda form: quotas(form, LIMITS)


def of(provider: AwsProvider, mode: PurchaseMode, pattern: str) -> Quota:
    (found,) = [one for one in provider.quotas() if one.mode is mode and pattern in one.types]
    return found


def test_limits_are_told_before_anything_runs(provider: AwsProvider) -> None:
    found = provider.quotas()
    assert len(found) == 3  # all pages; other limits of EC2 are none of vCPUs
    standard = of(provider, ON_DEMAND, "m*")
    assert (standard.name, standard.limit, standard.used) == ("Quota L-1216C47A", 32.0, 0.0)
    assert (standard.provider, standard.region, standard.unit) == (
        "aws",
        "us-east-1",
        QuotaUnit.CPUS,
    )
    gpus = of(provider, ON_DEMAND, "g*")
    wanted = replace(offer("g5.xlarge"), resources=replace(offer().resources, cpus=4))
    assert gpus.limit - gpus.used < gpus.needed(wanted)
    assert gpus.needed(replace(wanted, mode=SPOT)) == 0


def test_what_runs_counts_and_what_is_stopped_does_not(provider: AwsProvider) -> None:
    plain = provider.launch(request("plain"))
    provider.launch(request("spot", offer=offer("c5.xlarge", mode=SPOT)))
    provider.list()
    assert of(provider, ON_DEMAND, "m*").used == 2
    assert of(provider, SPOT, "m*").used == 4
    provider.stop(plain.id)
    provider.list()
    assert of(provider, ON_DEMAND, "m*").used == 0


def test_machines_of_others_in_the_account_count(
    make: Make, provider: AwsProvider, cloud: Cloud, clock: ManualClock
) -> None:
    provider.launch(request())
    make("other").launch(request("two", offer=offer("m5.xlarge")))
    provider.list()
    assert of(provider, ON_DEMAND, "m*").used == 2 + 4
    console = boto3.client("ec2", "us-east-1", endpoint_url=cloud.url)
    image = cloud.told("RunInstances")[0]["ImageId"]
    console.run_instances(ImageId=image, InstanceType="m5.2xlarge", MinCount=1, MaxCount=1)
    clock.set(clock.now() + timedelta(minutes=5))
    assert of(provider, ON_DEMAND, "m*").used == 2 + 4 + 8


def test_an_increase_is_seen_within_an_hour(
    provider: AwsProvider, cloud: Cloud, clock: ManualClock
) -> None:
    assert of(provider, ON_DEMAND, "g*").limit == 0
    cloud.always["ListServiceQuotas"] = lambda form: quotas(form, {**LIMITS, "L-DB2E81BA": 96.0})
    assert of(provider, ON_DEMAND, "g*").limit == 0
    clock.set(clock.now() + timedelta(hours=1))
    assert of(provider, ON_DEMAND, "g*").limit == 96


def test_a_region_that_does_not_answer_is_left_out(make: Make, cloud: Cloud) -> None:
    provider = make(regions=("us-east-1", "us-west-2"))
    bad = (400, "application/x-amz-json-1.1", b"{}")
    cloud.rules.append(Rule("ListServiceQuotas", "us-west-2", 100, lambda _: bad))
    assert {one.region for one in provider.quotas()} == {"us-east-1"}
    with pytest.raises(ProviderError):
        make(regions=("us-west-2",)).quotas()


FAMILIES = {
    "L-1216C47A": "a1 c7i d2 d3en h1 i4i im4gn is4gen m5 m7i-flex r8g t2 t4g z1d",
    "L-DB2E81BA": "g4dn g5g g6e gr6 vt1",
    "L-417A185B": "p3dn p4d p5en p6-b200",
    "L-74FC7D96": "f1 f2",
    "L-1945791B": "inf1 inf2",
    "L-2C3B7624": "trn1n trn2",
    "L-7295265B": "x1e x2iedn x8g",
    "L-43DA4232": "u-6tb1 u7i-12tb",
    "L-6E869C2A": "dl1 dl2q",
    "L-F7808C92": "hpc6a hpc7g",
}


@pytest.mark.parametrize("code", FAMILIES)
def test_a_family_counts_in_one_class_on_demand(code: str) -> None:
    for family in FAMILIES[code].split():
        name = f"{family}.xlarge"
        counted = [
            one.code
            for one in CLASSES
            if one.mode is ON_DEMAND and any(matches_glob(glob, name) for glob in one.types)
        ]
        assert counted == [code], name


def test_no_family_counts_in_two_classes_of_spot() -> None:
    for family in " ".join(FAMILIES.values()).split():
        assert sum(one.counts(f"{family}.xlarge", SPOT) for one in CLASSES) <= 1
