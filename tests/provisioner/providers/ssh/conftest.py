"""Two hosts with an sshd each, and the certainty that nothing of their machines is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from provisioner.providers.ssh.provider import SshProvider
from provisioner.providers.ssh.settings import SshSettings
from tests.contract.machines import LocalMachines
from tests.provisioner.providers.ssh.sshd import SSHD, Machine, machine

Make = Callable[..., SshProvider]
PATIENCE_S = 30.0
"""Where a test is not about time: the machine that runs it may be busy."""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    if not os.path.exists(SSHD):
        pytest.skip("no sshd is installed: apt-get install openssh-server")
    with ExitStack() as stack:
        both = [stack.enter_context(machine(tmp_path / name, name)) for name in ("ada", "ben")]
        for one in both:
            one.bring_program()
        yield both[0], both[1]
        for one in both:
            LocalMachines(one.folder / "roost" / "local").end_all()


@pytest.fixture
def make(hosts: tuple[Machine, Machine]) -> Iterator[Make]:
    """Makes providers of both hosts, or of those given."""
    made: list[SshProvider] = []

    def provider(
        *only: Machine,
        installation: str = "test",
        holdings: Path | None = None,
        gone: tuple[str, ...] = (),
        answer_within_s: float = PATIENCE_S,
        **changes: Any,
    ) -> SshProvider:
        told = [one.settings(**changes) for one in only or hosts]
        settings = SshSettings(hosts=told, gone=gone)
        made.append(SshProvider(settings, installation, holdings, answer_within_s))
        return made[-1]

    yield provider
    for one in made:
        one.close()
