"""The fake cloud, once as poor as a cloud may be and once with all that the contract knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from policies.world import Offer, PurchaseMode, Quota, QuotaUnit, Resources
from provisioner.clock import ManualClock
from provisioner.providers.contract import Capabilities
from provisioner.simulation.cloud import FakeCloud
from tests.contract.bench import Bench

POOR = Capabilities(spot=True, stop=True, client_tokens=True, volumes=True)
RICH = replace(
    POOR,
    hibernate=True,
    resize_in_place=True,
    alternatives=True,
    snapshots=True,
    interruption_notice_s=120.0,
)
START = datetime(2026, 3, 1, tzinfo=UTC)


def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield _bench(POOR)


def rich(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield _bench(RICH, zoned=True, litters=True)


def _bench(capabilities: Capabilities, *, zoned: bool = False, litters: bool = False) -> Bench:
    clock = ManualClock(START)
    offers = [
        _offer(mode, zone, cpus)
        for zone in ("za", "zb")
        for cpus in (2, 4)
        for mode in (PurchaseMode.ON_DEMAND, PurchaseMode.SPOT)
    ]
    cloud = FakeCloud(clock, capabilities, offers, zoned=zoned, litters=litters)

    def limit(cpus: float) -> None:
        cloud.limits = [
            Quota("cpus", "fake", "r", ("*",), QuotaUnit.CPUS, cpus, 0, PurchaseMode.ON_DEMAND)
        ]

    def inventory() -> object:
        listing = cloud.list()
        machines = sorted(m.id for m in listing.machines if m.state != "terminated")
        return machines, listing.volumes, listing.snapshots, listing.leftovers

    def silence() -> tuple[FakeCloud, str]:
        cloud.silent.add("r")
        return cloud, "r"

    return Bench(
        cloud,
        None,
        clock,
        passing(clock),
        cloud.bill,
        inventory=inventory,
        lose_reply=cloud.lose_reply,
        silence=silence,
        limit=limit,
        reclaim=lambda machine_id: cloud.reclaim(machine_id, 120.0),
        exhaust=lambda offer: cloud.scarce.add(offer.id),
    )


def passing(
    clock: ManualClock, moved: Callable[[float], None] = lambda _: None
) -> Callable[[Callable[[], object]], None]:
    """Has virtual time pass until a condition holds, and tells `moved` how far it went."""

    def pass_until(condition: Callable[[], object]) -> None:
        for _ in range(1000):
            if condition():
                return
            clock.set(clock.now() + timedelta(seconds=1))
            moved(1)
        raise AssertionError(f"not within 1000 s: {condition}")

    return pass_until


def _offer(mode: PurchaseMode, zone: str, cpus: int) -> Offer:
    return Offer(
        id=f"fake/r/{zone}/cpus{cpus}/{mode}",
        provider="fake",
        region="r",
        zone=zone,
        instance_type=f"cpus{cpus}",
        mode=mode,
        resources=Resources(cpus, 4),
        price_per_hour=Decimal("0.15") * cpus,
        currency="USD",
        can_stop=mode is PurchaseMode.ON_DEMAND,
    )
