"""A state folder belongs to one `roost up` at a time, and a crash leaves it free."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.plane import ControlPlane

pytestmark = pytest.mark.e2e


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ControlPlane]:
    control = ControlPlane(tmp_path)
    yield control
    control.end()


def test_a_second_control_plane_is_refused_until_the_first_is_dead(first: ControlPlane) -> None:
    client = first.start()
    assert first.process is not None
    refused = second_up(first)
    assert refused.returncode not in (0, -9)
    assert f"Another control plane (process {first.process.pid})" in refused.stderr
    assert str(first.state) in refused.stderr
    assert "Stop it first" in refused.stderr
    assert "Traceback" not in refused.stderr
    installation = client.status()["installation_id"]
    first.kill()
    assert first.start().status()["installation_id"] == installation


def second_up(first: ControlPlane) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "api.cli", "up", "--port", "0"]
    command += ["--state", str(first.state), "--config", str(first.config)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    environment |= {"XDG_CONFIG_HOME": str(first.folder / "cfg")}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
