"""What all crash tests need: the agent's program, built once, and planes that leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioner.agent_wheel import build_agent_wheel
from tests.crash.plane import Plane

MakePlane = Callable[..., Plane]
"""Takes the name of a mutant, or nothing."""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build_agent_wheel(folder)
    return folder


@pytest.fixture
def make_plane(tmp_path: Path, wheels: Path) -> Iterator[MakePlane]:
    made: list[Plane] = []

    def make(mutant: str | None = None) -> Plane:
        made.append(Plane(tmp_path / f"plane-{len(made)}", wheels, mutant))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def plane(make_plane: MakePlane) -> Plane:
    return make_plane()
