"""Both providers behind one bench: what the contract suite needs beside the contract itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from policies.world import Offer, PurchaseMode, Resources
from provisioner.clock import Clock, ManualClock, SystemClock
from provisioner.providers.contract import (
    Capabilities,
    LaunchRequest,
    Machine,
    MachineState,
    Provider,
)
from provisioner.providers.local.provider import LocalProvider
from provisioner.simulation.cloud import FakeCloud
from tests.contract.machines import SETTINGS, LocalMachines, wait_until


@dataclass(frozen=True)
class Bench:
    """A provider under test, and how time passes for it."""

    provider: Provider
    other_installation: Provider | None
    clock: Clock
    pass_until: Callable[[Callable[[], object]], None]
    """Let time pass until the condition holds."""
    bill: Callable[[datetime, datetime], dict[str, Decimal]]

    def request(
        self,
        launch_id: str = "one",
        mode: PurchaseMode = PurchaseMode.ON_DEMAND,
        **changes: object,
    ) -> LaunchRequest:
        offer = next(offer for offer in self.provider.offers() if offer.mode is mode)
        request = LaunchRequest(launch_id, offer, "#!/bin/sh\nexec sleep 600\n", (("job", "j1"),))
        return replace(request, **changes)  # type: ignore[arg-type]

    def machine(self, machine_id: str) -> Machine:
        return next(one for one in self.provider.list().machines if one.id == machine_id)

    def pass_until_state(self, machine_id: str, state: MachineState) -> Machine:
        self.pass_until(lambda: self.machine(machine_id).state is state)
        return self.machine(machine_id)


@pytest.fixture(params=["local", "fake"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "fake":
        yield _fake()
        return
    machines = LocalMachines(tmp_path / "local")
    provider = machines.provider(SETTINGS)
    other = LocalProvider(machines.root, "other", SystemClock(), SETTINGS)
    yield Bench(provider, other, SystemClock(), wait_until, provider.bill)
    machines.end_all()


def _fake() -> Bench:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    capabilities = Capabilities(spot=True, stop=True, client_tokens=True, volumes=True)
    offers = [_offer(PurchaseMode.ON_DEMAND), _offer(PurchaseMode.SPOT)]
    cloud = FakeCloud(clock, capabilities, offers)

    def pass_until(condition: Callable[[], object]) -> None:
        for _ in range(1000):
            if condition():
                return
            clock.set(clock.now() + timedelta(seconds=1))
        raise AssertionError(f"not within 1000 s: {condition}")

    return Bench(cloud, None, clock, pass_until, cloud.bill)


def _offer(mode: PurchaseMode) -> Offer:
    return Offer(
        id=f"fake/r/z/small/{mode}",
        provider="fake",
        region="r",
        zone="z",
        instance_type="small",
        mode=mode,
        resources=Resources(2, 4),
        price_per_hour=Decimal("0.30"),
        currency="USD",
        can_stop=mode is PurchaseMode.ON_DEMAND,
    )
