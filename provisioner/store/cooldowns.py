"""Offers not to be tried for a while, and what is there that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from policies.world import Cooldown
from provisioner.store.tables import cooldown, stray

LONGEST = timedelta(minutes=30)


def cool(
    connection: Connection,
    scope: str,
    reason: str,
    base: timedelta,
    now: datetime,
    longest: timedelta = LONGEST,
) -> None:
    """Cool a scope; each failure soon after the last doubles the time, up to `longest`."""
    row = connection.execute(sa.select(cooldown).where(cooldown.c.scope == scope)).first()
    if row is None:
        connection.execute(
            cooldown.insert().values(
                scope=scope, until=now + base, failures=1, reason=reason, updated_at=now
            )
        )
        return
    recent = now - row.until < LONGEST
    failures = row.failures + 1 if recent else 1
    until = now + min(base * 2 ** min(failures - 1, 10), longest)
    connection.execute(
        cooldown.update()
        .where(cooldown.c.scope == scope)
        .values(until=until, failures=failures, reason=reason, updated_at=now)
    )


def active(connection: Connection, now: datetime) -> tuple[Cooldown, ...]:
    query = sa.select(cooldown).where(cooldown.c.until > now).order_by(cooldown.c.scope)
    return tuple(Cooldown(r.scope, r.until, r.reason) for r in connection.execute(query))


def clear(connection: Connection, scope: str) -> None:
    """The scope works again."""
    connection.execute(cooldown.delete().where(cooldown.c.scope == scope))


def see_stray(
    connection: Connection, provider: str, machine_id: str, launch_id: str, now: datetime
) -> RowMapping:
    """Note a machine that no row speaks of; its note, with the time of the first sight."""
    where = (stray.c.provider == provider) & (stray.c.machine_id == machine_id)
    found = connection.execute(sa.select(stray).where(where)).mappings().first()
    if found is None:
        connection.execute(
            stray.insert().values(
                provider=provider, machine_id=machine_id, launch_id=launch_id, first_seen_at=now
            )
        )
        found = connection.execute(sa.select(stray).where(where)).mappings().one()
    return found


def forget_leftovers(connection: Connection, provider: str, but: Iterable[str]) -> None:
    """Leftovers, named `kind/id`, that are gone or in use again."""
    where = (stray.c.provider == provider) & stray.c.machine_id.contains("/")
    connection.execute(stray.delete().where(where, stray.c.machine_id.not_in(list(but))))


def forget_stray(connection: Connection, provider: str, machine_id: str) -> None:
    connection.execute(
        stray.delete().where(stray.c.provider == provider, stray.c.machine_id == machine_id)
    )
