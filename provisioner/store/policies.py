"""Policies as they were applied, version by version."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from provisioner.store.tables import policy


def active(connection: Connection) -> list[RowMapping]:
    """The policies in force, by name."""
    query = sa.select(policy).where(policy.c.active).order_by(policy.c.name)
    return list(connection.execute(query).mappings())


def version(connection: Connection, name: str, number: int | None) -> RowMapping | None:
    """One version of a policy; the newest without a number."""
    query = sa.select(policy).where(policy.c.name == name).order_by(policy.c.version.desc())
    if number is not None:
        query = query.where(policy.c.version == number)
    return connection.execute(query).mappings().first()


def apply(
    connection: Connection,
    *,
    id: str,
    name: str,
    filename: str,
    text: str,
    by: str,
    now: datetime,
) -> RowMapping:
    """Make a text the policy of this name; an unchanged one stays the version it is."""
    if connection.dialect.name == "postgresql":  # where writers do not wait for each other
        connection.exec_driver_sql("LOCK TABLE policy IN SHARE ROW EXCLUSIVE MODE")
    last = version(connection, name, None)
    if last is not None and last["active"] and last["text"] == text:
        return last
    connection.execute(policy.update().where(policy.c.name == name).values(active=False))
    connection.execute(
        policy.insert().values(
            id=id,
            name=name,
            version=1 if last is None else last["version"] + 1,
            filename=filename,
            text=text,
            active=True,
            applied_by=by,
            applied_at=now,
        )
    )
    found = version(connection, name, None)
    assert found is not None
    return found
