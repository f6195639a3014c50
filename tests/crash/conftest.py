"""What all crash tests need: the agent's program, built once, and planes that leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioner.agent_wheel import build_agent_wheel
from tests.crash.plane import Plane

MakePlane = Callable[..., Plane]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build_agent_wheel(folder)
    return folder


@pytest.fixture
def plane(tmp_path: Path, wheels: Path) -> Iterator[Plane]:
    made = Plane(tmp_path, wheels)
    yield made
    made.end()
