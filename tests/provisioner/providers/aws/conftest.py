"""A provider on a cloud of its own; botocore does not sleep between its attempts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest
from botocore.loaders import Loader

from policies.world import Offer, PurchaseMode, Resources
from provisioner.clock import ManualClock
from provisioner.providers.aws.instance import offer_id, region_of
from provisioner.providers.aws.limiter import Limiter
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.aws.settings import AwsSettings
from provisioner.providers.contract import LaunchRequest
from tests.provisioner.providers.aws.cloud import Cloud, serving

STRICT = (
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION",
    "MOTO_ENABLE_KEYPAIR_VALIDATION",
    "MOTO_ENABLE_AMI_VALIDATION",
)
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
Make = Callable[..., AwsProvider]


@pytest.fixture(scope="session")
def _server() -> Iterator[Cloud]:
    """One for all tests: each has an installation of its own, and sees nothing of the others'."""
    loader = (
        Loader()
    )  # reading the services' models anew for each session takes a third of a second
    with pytest.MonkeyPatch.context() as patch, serving() as cloud:
        for switch in STRICT:
            patch.setenv(switch, "1")
        patch.setattr("botocore.session.create_loader", lambda _: loader)
        yield cloud


@pytest.fixture(scope="module")
def _account(_server: Cloud) -> Cloud:
    """Empty for each file: questions go through all that is there."""
    _server.reset()
    return _server


@pytest.fixture
def installation(request: pytest.FixtureRequest) -> str:
    return hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]


@pytest.fixture
def cloud(_account: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # Only the waiting between attempts is taken out, not the attempts.
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    _account.clear()
    return _account


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def make(cloud: Cloud, clock: ManualClock, installation: str) -> Make:
    """Makes providers on the cloud; settings by name."""

    def made(installation: str = installation, **settings: object) -> AwsProvider:
        values = {
            "regions": ("us-east-1",),
            "endpoint_url": cloud.url,
            "image": IMAGE + "x86_64",
            "image_arm64": IMAGE + "arm64",
            "image_gpu": IMAGE + "x86_64",
            "image_gpu_arm64": IMAGE + "arm64",
        }
        limiter = Limiter(sleep=lambda _: None)
        return AwsProvider(AwsSettings(**{**values, **settings}), installation, clock, limiter)

    return made


@pytest.fixture
def provider(make: Make) -> AwsProvider:
    return make()


def offer(
    instance_type: str = "m5.large",
    zone: str = "us-east-1a",
    mode: PurchaseMode = PurchaseMode.ON_DEMAND,
) -> Offer:
    return Offer(
        id=offer_id(instance_type, zone, mode),
        provider="aws",
        region=region_of(zone),
        zone=zone,
        instance_type=instance_type,
        mode=mode,
        resources=Resources(2, 8),
        price_per_hour=Decimal("0.1"),
        currency="USD",
        can_stop=mode is PurchaseMode.ON_DEMAND,
    )


def request(launch_id: str = "one", **changes: object) -> LaunchRequest:
    values = {"offer": offer(), "user_data": "#!/bin/sh\n", "tags": (("job", "j1"),)}
    return LaunchRequest(launch_id, **{**values, **changes})  # type: ignore[arg-type]
