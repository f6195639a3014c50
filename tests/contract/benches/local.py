"""The local provider: machines are processes, and time is the host's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provisioner.clock import SystemClock
from provisioner.providers.local.provider import LocalProvider
from tests.contract.bench import Bench
from tests.contract.machines import SETTINGS, LocalMachines, wait_until


def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    machines = LocalMachines(request.getfixturevalue("tmp_path") / "local")
    provider = machines.provider(SETTINGS)
    other = LocalProvider(machines.root, "other", SystemClock(), SETTINGS)
    yield Bench(provider, other, SystemClock(), wait_until, provider.bill)
    machines.end_all()
