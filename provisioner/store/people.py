"""Teams, people, tokens and budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from provisioner.errors import ConflictError
from provisioner.store.tables import budget, person, team, token


def names(connection: Connection) -> dict[str, str]:
    """The names of all teams and people, by id."""
    rows = [*connection.execute(sa.select(team.c.id, team.c.name))]
    rows += [*connection.execute(sa.select(person.c.id, person.c.name))]
    return {row.id: row.name for row in rows}


def timezones(connection: Connection) -> tuple[tuple[str, str], ...]:
    """Each team's IANA zone, by team name."""
    query = sa.select(team.c.name, team.c.timezone).order_by(team.c.name)
    return tuple((row.name, row.timezone) for row in connection.execute(query))


def insert(connection: Connection, table: sa.Table, what: str, **values: Any) -> None:
    """Insert a row with a unique name.

    Raises:
        ConflictError: the name is taken.
    """
    try:
        with connection.begin_nested():
            connection.execute(table.insert().values(values))
    except IntegrityError as error:
        raise ConflictError(
            f"The name {values.get('name')!r} is taken by another {what}.",
            remedy="Choose another name.",
        ) from error


def find(connection: Connection, table: sa.Table, ref: str) -> RowMapping | None:
    """A team or person by id or name."""
    query = sa.select(table).where(sa.or_(table.c.id == ref, table.c.name == ref))
    return connection.execute(query).mappings().first()


def teams(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The query of teams with their budgets."""
    columns = (budget.c.amount, budget.c.currency)
    query = sa.select(team, *columns).outerjoin(budget, budget.c.team_id == team.c.id)
    return query.where(*where)


def people(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The query of people with their teams' names."""
    query = sa.select(person, team.c.name.label("team_name"))
    return query.outerjoin(team, team.c.id == person.c.team_id).where(*where)


def tokens(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The query of tokens with their owners' names."""
    columns = (person.c.name.label("person_name"), person.c.team_id)
    return sa.select(token, *columns).join(person, person.c.id == token.c.person_id).where(*where)


def bearer(connection: Connection, sha256: str) -> RowMapping | None:
    """The person who holds a valid token."""
    query = (
        sa.select(person, team.c.name.label("team_name"))
        .join(token, token.c.person_id == person.c.id)
        .outerjoin(team, team.c.id == person.c.team_id)
        .where(token.c.sha256 == sha256, token.c.revoked_at.is_(None))
    )
    return connection.execute(query).mappings().first()


def set_budget(connection: Connection, team_id: str, now: datetime, **values: Any) -> None:
    changed = connection.execute(
        budget.update().where(budget.c.team_id == team_id).values(updated_at=now, **values)
    )
    if changed.rowcount == 0:
        connection.execute(
            budget.insert().values(team_id=team_id, period="monthly", updated_at=now, **values)
        )


def budgets(connection: Connection) -> list[RowMapping]:
    """All budgets with their teams' names and zones."""
    query = sa.select(budget, team.c.name.label("team_name"), team.c.timezone)
    query = query.join(team, team.c.id == budget.c.team_id).order_by(team.c.name)
    return list(connection.execute(query).mappings())


def revoke(connection: Connection, token_id: str, now: datetime) -> None:
    connection.execute(
        token.update()
        .where(token.c.id == token_id, token.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )


def anybody(connection: Connection) -> bool:
    """Whether any person exists."""
    return connection.execute(sa.select(person.c.id).limit(1)).first() is not None
