"""Worlds to test the control plane in: on SQLite, or on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioner.store.engine import Store
from tests.provisioner.world import World, make_template, sqlite_store


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template") / "roost.db")


@pytest.fixture
def lite(tmp_path: Path, template: Path) -> Iterator[Store]:
    """A SQLite database with all tables, for what does not depend on the kind of database."""
    with sqlite_store(tmp_path, template) as store:
        yield store


@pytest.fixture
def make_world(lite: Store, tmp_path: Path) -> Callable[..., World]:
    def make(**options: Any) -> World:
        return World(lite, tmp_path, **options)

    return make


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture
def either(store: Store, tmp_path: Path) -> World:
    """A world on each kind of database."""
    return World(store, tmp_path)
