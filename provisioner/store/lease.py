"""The lease: at most one reconciler writes, and a former one can tell that it must not.

Time is the database's own, so that hosts with different clocks agree on who holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from provisioner.errors import StaleEpochError
from provisioner.store.engine import Store
from provisioner.store.tables import lease

NAME = "reconciler"


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lease; the epoch goes with every write made under it."""

    holder: str
    epoch: int


def acquire(store: Store, holder: str, ttl_s: float, held: Lease | None = None) -> Lease | None:
    """Renew `held`, or take a lease that is free or expired; None while somebody else holds it.

    `holder` names a state folder, which one process at a time has locked: what it held before a
    crash it takes back at once, as a new epoch.
    """
    with store.write() as connection:
        now = database_time(connection)
        expires = now + timedelta(seconds=ttl_s)
        row = connection.execute(
            sa.select(lease).where(lease.c.name == NAME).with_for_update()
        ).first()
        if row is None:
            return _first(connection, holder, expires)
        if row.holder != holder and row.expires_at > now:
            return None
        renewed = held is not None and (held.holder, held.epoch) == (row.holder, row.epoch)
        epoch = row.epoch if renewed else row.epoch + 1
        connection.execute(
            lease.update()
            .where(lease.c.name == NAME, lease.c.epoch == row.epoch)
            .values(holder=holder, epoch=epoch, expires_at=expires)
        )
        return Lease(holder, epoch)


def _first(connection: Connection, holder: str, expires: datetime) -> Lease | None:
    """The very first lease of a database; None when another one was faster."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert: sqlite.Insert | postgresql.Insert = dialect.insert(lease)
    row = {"name": NAME, "holder": holder, "epoch": 1, "expires_at": expires}
    made = connection.execute(
        insert.values(row).on_conflict_do_nothing().returning(lease.c.epoch)
    ).first()
    return None if made is None else Lease(holder, 1)


def release(store: Store, held: Lease) -> None:
    """Let another one take it at once."""
    with store.write() as connection:
        connection.execute(
            lease.update()
            .where(lease.c.name == NAME, lease.c.epoch == held.epoch)
            .values(expires_at=database_time(connection))
        )


def current(connection: Connection) -> tuple[str | None, int | None]:
    """Who holds the lease, and its epoch; the holder is None when it has expired."""
    row = connection.execute(sa.select(lease).where(lease.c.name == NAME)).first()
    if row is None:
        return None, None
    return (row.holder if row.expires_at > database_time(connection) else None), row.epoch


@contextmanager
def fenced(store: Store, held: Lease) -> Iterator[Connection]:
    """A write transaction that fails unless `held` is still the current epoch.

    Raises:
        StaleEpochError: somebody else took the lease; nothing was written.
    """
    with store.write() as connection:
        epoch = connection.execute(
            sa.select(lease.c.epoch).where(lease.c.name == NAME).with_for_update()
        ).scalar()
        if epoch != held.epoch:
            raise StaleEpochError(
                f"The reconciler's lease went from epoch {held.epoch} to {epoch}.",
                remedy="Another control plane has taken over; this one stops writing.",
            )
        yield connection


def database_time(connection: Connection) -> datetime:
    """The database's clock, in UTC."""
    if connection.dialect.name == "sqlite":
        text = connection.exec_driver_sql("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')").scalar()
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
    value = connection.exec_driver_sql("SELECT clock_timestamp()").scalar()
    assert isinstance(value, datetime)
    return value.astimezone(UTC)
