"""What tests of several packages use: databases of both kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from provisioner.store.engine import Store
from provisioner.store.migrate import upgrade
from tests.postgres import NoPostgresError, Postgres, find_binaries

# The same examples each time: a run that fails can be run again.
settings.register_profile("roost", derandomize=True, deadline=None)
settings.load_profile("roost")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for this session; tests that need it skip where none can be had."""
    try:
        server = Postgres(find_binaries())
    except NoPostgresError as why:
        pytest.skip(str(why))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database; each test that asks for one runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'roost.db'}"
    make: Callable[[], str] = request.getfixturevalue("postgres").new_database
    return make()


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A database with all tables."""
    opened = Store(database_url)
    upgrade(opened)
    yield opened
    opened.close()
