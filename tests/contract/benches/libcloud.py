"""libcloud's EC2-compatible driver behind the test cloud of AWS: a cloud that keeps state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from policies.world import Offer, PurchaseMode
from provisioner.clock import ManualClock
from provisioner.providers.contract import PricePoint, Provider, Rates
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.aws import prices
from tests.clouds.aws.control import AwsCloud
from tests.contract.bench import Bench
from tests.contract.benches.fake import passing

REGION, OTHER_REGION = "us-east-1", "eu-central-1"
IMAGE = "ami-12c6146b"
"""Of a PC, and known in every region of the test cloud."""
TYPES = ("m5.large", "m5.xlarge", "c5.large")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_ACTIONS = {
    "launch": "RunInstances",
    "terminate": "TerminateInstances",
    "stop": "StopInstances",
    "start": "StartInstances",
    "resize": "ModifyInstanceAttribute",
    "snapshot": "CreateSnapshot",
}
_installations = itertools.count()


def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    cloud: AwsCloud = request.getfixturevalue("aws_cloud")
    clock = ManualClock(START)
    cloud.stand_still(START)
    cloud.knobs(pending_s=1, stopping_s=1, types=TYPES)
    installation = f"test{next(_installations)}"
    provider = provider_on(cloud, clock, installation)

    def exhaust(offer: Offer) -> None:
        cloud.knobs(scarce=[f"{offer.zone}/{offer.instance_type}/{offer.mode}"])

    def silence() -> tuple[Provider, str]:
        cloud.rule(".*", region=REGION, drop=True, count=None)
        return provider_on(cloud, clock, installation, (REGION, OTHER_REGION)), REGION

    yield Bench(
        provider,
        provider_on(cloud, clock, "other"),
        clock,
        passing(clock, cloud.advance),
        cloud.bill,
        inventory=cloud.inventory,
        lose_reply=lambda call: cloud.rule(_ACTIONS[call], drop_after=True, count=1),
        silence=silence,
        exhaust=exhaust,
    )


def provider_on(
    cloud: AwsCloud, clock: ManualClock, installation: str, regions: tuple[str, ...] = (REGION,)
) -> Provider:
    settings = CloudSettings(
        name="ec2",
        driver="ec2",
        secrets={
            "access_key": "env:AWS_ACCESS_KEY_ID",  # type: ignore[dict-item]
            "secret_key": "env:AWS_SECRET_ACCESS_KEY",  # type: ignore[dict-item]
        },
        regions=regions,
        endpoint_url=cloud.url,
        image=IMAGE,
        types=TYPES,
        price_per_gib_month=prices.GIB_MONTH["VolumeUsage.gp3"],  # type: ignore[arg-type]
    )
    return LibcloudProvider(settings, installation, clock, _Book(clock))


class _Book:
    """Knows what the test cloud charges."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def price(self, region: str, instance_type: str, mode: PurchaseMode) -> PricePoint | None:
        if mode is PurchaseMode.ON_DEMAND:
            return PricePoint(START, prices.on_demand(instance_type), "USD")
        since, price = prices.spot(instance_type, f"{region}a", self._clock.now())
        return PricePoint(since, price, "USD")

    def rates(self, region: str) -> Rates:
        return Rates()
