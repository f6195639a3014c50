"""A control plane whose machines are on a host of the team's own, through a real sshd."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.client import Client
from tests.contract.machines import LocalMachines
from tests.e2e.plane import ControlPlane, ended_job, wait_until
from tests.provisioner.providers.ssh.sshd import SSHD, Machine, machine

pytestmark = pytest.mark.e2e


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Machine]:
    if not os.path.exists(SSHD):
        pytest.skip("no sshd is installed: apt-get install openssh-server")
    with machine(tmp_path / "ada", "ada") as running:
        yield running
        LocalMachines(running.folder / "roost" / "local").end_all()


@pytest.fixture
def plane(tmp_path: Path, host: Machine) -> Iterator[ControlPlane]:
    """It knows the host and nothing else."""
    control = ControlPlane(tmp_path)
    told = host.settings().model_dump(mode="json", exclude_none=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in told.items()]
    control.config.write_text(
        "\n".join(
            [
                "tick_s = 0.2",
                "heartbeat_s = 0.2",
                "[local]",
                "enabled = false",
                "[[ssh.hosts]]",
                *lines,
            ]
        )
    )
    yield control
    control.end()


def test_a_desk_and_a_job_on_an_owned_host(plane: ControlPlane, host: Machine) -> None:
    client = plane.start()
    wait_until(lambda: list(client.offers({})), "the host has told its offers")
    client.create_workstation({"name": "desk", "cpus": 1, "memory_gib": 1})
    desk = wait_until(lambda: in_phase(client, "desk", "ready"), "the desk is ready")
    assert desk["instance"]["machine_id"].startswith("ada:")
    client.submit_job({"name": "hello", "argv": ["sh", "-c", "echo hello from $HOME"]})
    job = ended_job(client, "hello")
    assert job["state"] == "succeeded"
    assert str(host.folder) in client.job_logs("hello", None)["text"]

    plane.kill()
    client = plane.start()
    wait_until(lambda: in_phase(client, "desk", "ready"), "the desk is still there")
    client.delete_workstation("desk")
    wait_until(lambda: not list(client.workstations()), "the desk and its home are gone")
    wait_until(lambda: not list(client.instances(live=True)), "all machines have ended")
    assert not LocalMachines(host.folder / "roost" / "local").strays()
    (launched, _) = list(client.launches(None))
    assert launched["offer_id"].startswith("ssh/ada/ada/")


def in_phase(client: Client, name: str, phase: str) -> dict[str, Any] | None:
    desk = client.workstation(name)
    return desk if desk["phase"] == phase else None
