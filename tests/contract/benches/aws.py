"""The AWS provider behind the test cloud, which keeps the time of the test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from botocore.loaders import Loader

from policies.world import Offer
from provisioner.clock import ManualClock
from provisioner.providers.aws.limiter import Limiter
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.aws.settings import AwsSettings
from provisioner.providers.contract import Provider
from tests.clouds.aws.control import AwsCloud
from tests.contract.bench import Bench
from tests.contract.benches.fake import passing

REGION, OTHER_REGION = "us-east-1", "eu-central-1"
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"
TYPES = ("m5.large", "m5.xlarge", "c5.large")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_LOADER = Loader()  # reading the services' models anew for each session takes a third of a second
_ACTIONS = {
    "launch": "RunInstances|CreateFleet",
    "terminate": "TerminateInstances",
    "stop": "StopInstances",
    "start": "StartInstances",
    "resize": "ModifyInstanceAttribute",
    "snapshot": "CreateSnapshot",
}
_STANDARD_ON_DEMAND = "L-1216C47A"
_installations = itertools.count()


def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    cloud: AwsCloud = request.getfixturevalue("aws_cloud")
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    patch.setattr("botocore.session.create_loader", lambda _: _LOADER)
    # Only the waiting between attempts is taken out, not the attempts.
    patch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
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
        # botocore repeats a call whose answer is lost; so all of its attempts lose theirs.
        lose_reply=lambda call: cloud.rule(_ACTIONS[call], drop_after=True, count=8),
        silence=silence,
        limit=lambda cpus: cloud.knobs(quota_vcpus={_STANDARD_ON_DEMAND: cpus}),
        reclaim=cloud.interrupt,
        exhaust=exhaust,
    )


def provider_on(
    cloud: AwsCloud, clock: ManualClock, installation: str, regions: tuple[str, ...] = (REGION,)
) -> Provider:
    settings = AwsSettings(
        regions=regions,
        endpoint_url=cloud.url,
        image=IMAGE + "x86_64",
        image_arm64=IMAGE + "arm64",
        types=TYPES,
        hibernation=True,
        interruption_queues={REGION: cloud.notices_queue(REGION)},
    )
    limiter = Limiter(monotonic=lambda: clock.now().timestamp(), sleep=lambda _: None)
    return AwsProvider(settings, installation, clock, limiter)
