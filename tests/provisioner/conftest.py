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
from tests.provisioner.world import World, make_template, sqlite_store


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template") / "roost.db")


@pytest.fixture(scope="session")
def migrated(postgres: Postgres) -> str:
    """The URL of a PostgreSQL database with all tables."""
    url = postgres.new_database()
    store = Store(url)
    upgrade(store)
    store.close()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, template: Path) -> Iterator[Store]:
    """An empty database with all tables, of each kind; made once, so that it is quickly at hand."""
    if request.param == "sqlite":
        with sqlite_store(tmp_path, template) as opened:
            yield opened
        return
    opened = Store(request.getfixturevalue("migrated"))
    names = ", ".join(table.name for table in metadata.sorted_tables)
    with opened.write() as connection:
        connection.execute(sa.text(f"TRUNCATE {names} RESTART IDENTITY"))
    yield opened
    opened.close()


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
