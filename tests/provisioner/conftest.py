"""Worlds to test the control plane in: on SQLite, or on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from provisioner.store.engine import Store
from provisioner.store.migrate import upgrade
from provisioner.store.tables import metadata
from tests.postgres import Postgres
from tests.provisioner.world import World


@pytest.fixture(scope="session")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    yield from _opened(f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'roost.db'}")


@pytest.fixture(scope="session")
def postgresql_store(postgres: Postgres) -> Iterator[Store]:
    yield from _opened(postgres.new_database())


@pytest.fixture
def lite(sqlite_store: Store) -> Store:
    """An empty SQLite database, for what does not depend on the kind of database."""
    return _emptied(sqlite_store)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Store:
    """An empty database with all tables, of each kind.

    One for all tests of this package: what costs time is to make it, and that each new one has all
    statements compiled anew.
    """
    return _emptied(request.getfixturevalue(f"{request.param}_store"))


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


def _opened(url: str) -> Iterator[Store]:
    store = Store(url)
    upgrade(store)
    yield store
    store.close()


def _emptied(store: Store) -> Store:
    with store.write() as connection:
        if connection.dialect.name == "postgresql":
            names = ", ".join(table.name for table in metadata.sorted_tables)
            connection.execute(sa.text(f"TRUNCATE {names} RESTART IDENTITY"))
        else:
            for table in reversed(metadata.sorted_tables):
                connection.execute(sa.delete(table))
    return store
