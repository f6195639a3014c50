"""Local providers for tests, and the certainty that none of their machines outlives a test.

from tests.contract.machines import LocalMachines, local_machines  # noqa: F401 (a fixture)

def test_something(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from policies.world import Offer, PurchaseMode
from provisioner.clock import SystemClock
from provisioner.providers.contract import LaunchRequest, Machine, MachineState
from provisioner.providers.local.machine.processes import MARKER
from provisioner.providers.local.machine_folder import MachineFolder
from provisioner.providers.local.provider import LocalProvider
from provisioner.providers.local.settings import LocalSettings

SETTINGS = LocalSettings(limits="none", overcommit=64, stop_grace_s=1.0, terminate_grace_s=0.5)


def wait_until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Return once the condition holds; AssertionError when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {condition}"
        time.sleep(0.01)


class LocalMachines:
    """Makes providers on one root, and ends all of its machines."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def provider(
        self, settings: LocalSettings = SETTINGS, installation: str = "test"
    ) -> LocalProvider:
        return LocalProvider(self.root, installation, SystemClock(), settings)

    def folder(self, machine_id: str) -> MachineFolder:
        return MachineFolder(self.root / "machines" / machine_id)

    def end_all(self) -> None:
        folders = [MachineFolder(path) for path in (self.root / "machines").glob("[!.]*")]
        specs = [spec for folder in folders if (spec := folder.spec())]
        for spec in specs:
            self.provider(installation=spec.installation).terminate(spec.launch_id)
        wait_until(lambda: not any(folder.alive() for folder in folders))
        assert not self.strays()

    def strays(self) -> list[int]:
        """Living processes that carry the marker of a machine of this root."""
        return processes_with(f"{self.root}/machines/")


@pytest.fixture
def local_machines(tmp_path: Path) -> Iterator[LocalMachines]:
    machines = LocalMachines(tmp_path / "local")
    yield machines
    machines.end_all()


def offer_of(
    provider: LocalProvider,
    mode: PurchaseMode = PurchaseMode.ON_DEMAND,
    cpus: float = 1,
    zone: str | None = None,
) -> Offer:
    """The smallest offer of the mode with that many cpus."""
    return min(
        (
            offer
            for offer in provider.offers()
            if (offer.mode, offer.resources.cpus) == (mode, cpus)
            and zone in (None, offer.zone)
            and not offer.resources.gpus
        ),
        key=lambda offer: offer.resources.memory_gib,
    )


def request_for(
    provider: LocalProvider,
    launch_id: str = "one",
    script: str = "#!/bin/sh\nexec sleep 600\n",
    mode: PurchaseMode = PurchaseMode.ON_DEMAND,
    **changes: object,
) -> LaunchRequest:
    request = LaunchRequest(launch_id, offer_of(provider, mode), script)
    return replace(request, **changes)  # type: ignore[arg-type]


def machine_of(provider: LocalProvider, machine_id: str = "one") -> Machine:
    return next(one for one in provider.list().machines if one.id == machine_id)


def state_of(provider: LocalProvider, machine_id: str = "one") -> MachineState | None:
    found = [one.state for one in provider.list().machines if one.id == machine_id]
    return found[0] if found else None


def running(pid: int) -> bool:
    """Whether a process lives, zombies not counted."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def processes_with(text: str) -> list[int]:
    """The living processes whose environment holds a machine's marker and the text."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if f"{MARKER}=".encode() in environment and text.encode() in environment:
                found.append(int(name))
    return [pid for pid in found if running(pid)]


__all__ = [
    "SETTINGS",
    "LocalMachines",
    "local_machines",
    "machine_of",
    "offer_of",
    "processes_with",
    "request_for",
    "running",
    "state_of",
    "wait_until",
]
