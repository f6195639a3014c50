"""What the store says when its database cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from provisioner.errors import StateError
from provisioner.store.engine import Store


@pytest.fixture
def small(tmp_path: Path) -> Store:
    """A database whose disk is full at 32 pages."""
    store = Store(f"sqlite:///{tmp_path / 'small.db'}")

    @sa.event.listens_for(store.engine, "connect")
    def _limit(dbapi: sa.engine.interfaces.DBAPIConnection, _record: object) -> None:
        dbapi.cursor().execute("PRAGMA max_page_count=32")

    with store.write() as connection:
        connection.execute(sa.text("CREATE TABLE heap (item TEXT)"))
    return store


def test_a_full_disk_is_told_in_words_and_passes(small: Store) -> None:
    with pytest.raises(StateError, match="is full") as caught, small.write() as connection:
        connection.execute(sa.text("INSERT INTO heap VALUES (hex(zeroblob(1000000)))"))
    assert "its disk has room" in (caught.value.remedy or "")
    with small.write() as connection:
        connection.execute(sa.text("INSERT INTO heap VALUES ('a little')"))
    with small.read() as connection:
        assert connection.execute(sa.text("SELECT item FROM heap")).scalars().all() == ["a little"]
    small.close()


def test_a_fault_of_the_program_stays_one(small: Store) -> None:
    with pytest.raises(sa.exc.OperationalError), small.read() as connection:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))
    small.close()
