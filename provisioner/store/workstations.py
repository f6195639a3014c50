"""Workstation rows: what people want of their desks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from policies.world import Desire, InstanceState, Needs
from provisioner.errors import ConflictError
from provisioner.store.codec import needs_from_json, needs_to_json
from provisioner.store.instances import LIVE
from provisioner.store.tables import instance, volume, workstation


@dataclass(frozen=True, slots=True)
class WorkstationRow:
    """One workstation; columns as in the table."""

    id: str
    name: str
    team_id: str
    owner_id: str
    needs: Needs
    labels: dict[str, str]
    volume_id: str
    desire: Desire
    desire_reason: str
    generation: int
    attempt: int
    hold_kind: str | None
    hold_until: datetime | None
    hold_by: str | None
    last_activity_at: datetime | None
    started_by_person_at: datetime | None
    warned_at: datetime | None
    waiting_since: datetime | None
    not_before: datetime | None
    trouble: str | None
    created_at: datetime
    deleted_at: datetime | None


def insert(connection: Connection, row: WorkstationRow) -> None:
    """Insert a workstation.

    Raises:
        ConflictError: the team has one of this name.
    """
    values = {name: getattr(row, name) for name in WorkstationRow.__dataclass_fields__}
    try:
        with connection.begin_nested():
            connection.execute(
                workstation.insert().values(values | {"needs": needs_to_json(row.needs)})
            )
    except IntegrityError as error:
        raise ConflictError(
            f"There is a workstation {row.name!r} already.", remedy="Choose another name."
        ) from error


def insert_volume(
    connection: Connection, *, id: str, provider: str, team_id: str, gib: int, now: datetime
) -> None:
    connection.execute(
        volume.insert().values(
            id=id,
            provider=provider,
            team_id=team_id,
            gib=gib,
            seen=False,
            deleting=False,
            created_at=now,
        )
    )


def volume_of(connection: Connection, id: str) -> RowMapping:
    return connection.execute(sa.select(volume).where(volume.c.id == id)).mappings().one()


def homes(connection: Connection) -> dict[str, tuple[str, str | None]]:
    """Provider and zone of the homes of the present workstations, by volume."""
    query = sa.select(volume.c.id, volume.c.provider, volume.c.zone).join(
        workstation, workstation.c.volume_id == volume.c.id
    )
    rows = connection.execute(query.where(workstation.c.deleted_at.is_(None)))
    return {row.id: (row.provider, row.zone) for row in rows}


def volumes(connection: Connection, provider: str) -> list[RowMapping]:
    """The volumes of a provider that are not known to be deleted."""
    query = sa.select(volume).where(volume.c.provider == provider, volume.c.deleted_at.is_(None))
    return list(connection.execute(query).mappings())


def deleted_volumes(connection: Connection, ids: Iterable[str]) -> list[str]:
    """Which of these volumes are thought to be deleted."""
    query = sa.select(volume.c.id).where(
        volume.c.id.in_(list(ids)), volume.c.deleted_at.is_not(None)
    )
    return [row.id for row in connection.execute(query)]


def update_volume(connection: Connection, id: str, **values: Any) -> None:
    connection.execute(volume.update().where(volume.c.id == id).values(values))


def get(connection: Connection, id: str) -> WorkstationRow | None:
    rows = select(connection, workstation.c.id == id)
    return rows[0] if rows else None


def present(connection: Connection) -> list[WorkstationRow]:
    """All workstations that are not deleted yet."""
    return select(connection, workstation.c.deleted_at.is_(None))


def select(connection: Connection, *where: sa.ColumnElement[bool]) -> list[WorkstationRow]:
    query = sa.select(workstation).where(*where)
    query = query.order_by(workstation.c.created_at, workstation.c.id)
    return [from_mapping(m) for m in connection.execute(query).mappings()]


def update(connection: Connection, id: str, **values: Any) -> None:
    connection.execute(workstation.update().where(workstation.c.id == id).values(values))


def note_waiting(connection: Connection, now: datetime) -> None:
    """Remember since when workstations that are on have had no machine."""
    held = sa.exists().where(instance.c.owner_id == workstation.c.id)
    on = (workstation.c.desire == Desire.ON) & workstation.c.deleted_at.is_(None)
    connection.execute(
        workstation.update()
        .where(on, workstation.c.waiting_since.is_(None), ~held.where(instance.c.state.in_(LIVE)))
        .values(waiting_since=now)
    )
    ready = held.where(instance.c.state == InstanceState.READY)
    connection.execute(
        workstation.update()
        .where(workstation.c.waiting_since.is_not(None), ready)
        .values(waiting_since=None)
    )


def from_mapping(mapping: RowMapping) -> WorkstationRow:
    """The typed row."""
    return WorkstationRow(
        **{
            **mapping,
            "needs": needs_from_json(mapping["needs"]),
            "desire": Desire(mapping["desire"]),
        }
    )
