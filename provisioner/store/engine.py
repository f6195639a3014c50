"""Opens the database: SQLite in WAL mode, or PostgreSQL, by URL alone.

`Store.write` is one short read-write transaction, `Store.read` a consistent read-only one. No
provider call, and nothing else that waits for the network, may happen inside either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection

from provisioner.errors import StateError

__all__ = ["Connection", "Store"]

_BUSY_TIMEOUT_MS = 15_000
_WRITE = "roost_write"
_STATES = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")


class Store:
    """A database, with the two kinds of transaction that Roost uses."""

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        self.engine = _open(self.url)
        self._writer = self.engine.execution_options(**{_WRITE: True})
        # A writer waits for row locks and must then see what the other one wrote.
        self._reader = (
            self.engine
            if self.engine.dialect.name == "sqlite"
            else self.engine.execution_options(isolation_level="REPEATABLE READ")
        )

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A read-write transaction, committed at the end, rolled back on any error.

        On SQLite it takes the one write lock at once, so that what it reads cannot grow old.
        """
        with self._usable(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view; never blocks a writer nor waits for one."""
        with self._usable(), self._reader.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """A full disk or a server that is away is no fault of the program: it is told in words."""
        try:
            yield
        except (sa.exc.OperationalError, sa.exc.TimeoutError) as error:
            if not _passes(error):
                raise
            where = self.url.render_as_string(hide_password=True)
            cause = " ".join(str(getattr(error, "orig", error)).split()).rstrip(".?")
            raise StateError(
                f"The database {where} cannot be used: {cause}.",
                remedy="Check that it is there, that it may be written and that its disk has room.",
            ) from error


def _passes(error: sa.exc.SQLAlchemyError) -> bool:
    """Whether it is about the state of the database, and not about what was asked of it.

    SQLite calls both an operational error: https://www.sqlite.org/rescode.html.
    """
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", None)
    return name is None or name.startswith(_STATES)


def _open(url: sa.URL) -> Engine:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _open_sqlite(url)
    if backend == "postgresql":
        return _open_postgresql(url)
    raise StateError(
        f"{url.render_as_string(hide_password=True)} is neither SQLite nor PostgreSQL.",
        remedy="Use sqlite:///FILE or postgresql://USER@HOST/NAME.",
    )


def _open_postgresql(url: sa.URL) -> Engine:
    try:
        return sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            isolation_level="READ COMMITTED",
            pool_size=20,
            max_overflow=20,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError as error:
        raise StateError(
            "PostgreSQL needs the driver psycopg, which is not installed.",
            remedy="Install Roost with its `postgres` extra.",
        ) from error


def _open_sqlite(url: sa.URL) -> Engine:
    engine = sa.create_engine(url, pool_size=20, max_overflow=20, connect_args={"timeout": 15})

    @sa.event.listens_for(engine, "connect")
    def _configure(dbapi: DBAPIConnection, _record: Any) -> None:
        # The driver's own BEGIN comes too late for WAL's read-then-write; ours is below.
        dbapi.isolation_level = None
        cursor = dbapi.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            f"busy_timeout={_BUSY_TIMEOUT_MS}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine
