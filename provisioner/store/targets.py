"""Finding what a person calls by a name or an id."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provisioner.errors import ConflictError
from provisioner.store.tables import instance, job, team, workstation

_NAMED = 5


def target_id(connection: Connection, team_id: str | None, all_teams: bool, ref: str) -> str | None:
    """The id of a workstation, job, instance or team by id or name; the newest of that name."""
    for table in (workstation, job):
        found = find(connection, table, team_id, all_teams, ref)
        if found is not None:
            return found
    seen = sa.true() if all_teams else instance.c.team_id == team_id
    query = sa.select(instance.c.id).where(instance.c.id == ref, seen)
    found = connection.execute(query).scalar()
    if found is None:
        mine = sa.true() if all_teams else team.c.id == team_id
        named = sa.or_(team.c.id == ref, team.c.name == ref)
        found = connection.execute(sa.select(team.c.name).where(named, mine)).scalar()
    return found


def find(
    connection: Connection, table: sa.Table, team_id: str | None, all_teams: bool, ref: str
) -> str | None:
    """The id of a present workstation, or of a job, by id or name; the newest of that name.

    Who sees all teams means their own team first.

    Raises:
        ConflictError: only other teams have it, and more than one of them.
    """
    query = sa.select(table.c.id, table.c.team_id)
    query = query.where(sa.or_(table.c.id == ref, table.c.name == ref))
    if not all_teams:
        query = query.where(table.c.team_id == team_id)
    if table is workstation:
        query = query.where(table.c.deleted_at.is_(None))
    rows = connection.execute(query.order_by(table.c.created_at.desc())).all()
    mine = [row for row in rows if row.team_id == team_id]
    if not mine and len({row.team_id for row in rows}) > 1:
        raise ConflictError(
            f"Several teams have a {table.name} {ref!r}.",
            remedy=f"Name it by its id: {', '.join(row.id for row in rows[:_NAMED])}.",
        )
    return next((row.id for row in (*mine, *rows)), None)
