from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer_agent.supervise.control_plane import ControlPlane
from tests.trainer_agent.supervise.machine import Machine


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    control = ControlPlane()
    control.open()
    yield control
    control.close()


@pytest.fixture
def machine(tmp_path: Path, control: ControlPlane) -> Iterator[Machine]:
    machine = Machine(tmp_path, control.url)
    yield machine
    machine.end()
