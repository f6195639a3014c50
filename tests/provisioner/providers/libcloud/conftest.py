"""A provider on a cloud in memory, and a server that answers what libcloud's authors recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from policies.world import Offer, PurchaseMode, Resources
from provisioner.clock import ManualClock
from provisioner.providers.contract import LaunchRequest, Machine
from provisioner.providers.libcloud.provider import LibcloudProvider
from tests.clouds.libcloud_fixtures.recorded import Recorded, serving
from tests.provisioner.providers.libcloud.paper_cloud import Sheet, paper, settings

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def after(clock: ManualClock) -> Callable[[float], None]:
    """Let so many seconds pass."""
    return lambda seconds: clock.set(clock.now() + timedelta(seconds=seconds))


@pytest.fixture
def sheet(clock: ManualClock) -> Iterator[Sheet]:
    with paper(clock) as cloud:
        yield cloud


@pytest.fixture
def provider(sheet: Sheet, clock: ManualClock) -> LibcloudProvider:
    return LibcloudProvider(settings(), "test", clock)


@pytest.fixture
def recorded_cloud() -> Iterator[Recorded]:
    with serving() as cloud:
        yield cloud


def offer(
    instance_type: str = "small",
    zone: str = "r1a",
    mode: PurchaseMode = PurchaseMode.ON_DEMAND,
    provider: str = "paper",
    region: str | None = None,
) -> Offer:
    region = region or zone[:2]
    return Offer(
        id=f"{provider}/{region}/{zone}/{instance_type}/{mode}",
        provider=provider,
        region=region,
        zone=zone,
        instance_type=instance_type,
        mode=mode,
        resources=Resources(2, 4),
        price_per_hour=Decimal("0.10"),
        currency="USD",
        can_stop=mode is PurchaseMode.ON_DEMAND,
    )


def request(launch_id: str = "one", **changes: object) -> LaunchRequest:
    made = LaunchRequest(launch_id, offer(), "#!/bin/sh\n", (("job", "j1"),))
    return replace(made, **changes)  # type: ignore[arg-type]


def machine(provider: LibcloudProvider, id: str) -> Machine:
    return next(one for one in provider.list().machines if one.id == id)
