"""The journal: what happened, appended and never changed, and decisions with their snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from provisioner.store.tables import decision, event, snapshot


def record(
    connection: Connection,
    at: datetime,
    kind: str,
    subject_id: str,
    *,
    team_id: str | None = None,
    **body: Any,
) -> None:
    """Append one event; `body` must be JSON-able."""
    connection.execute(
        event.insert().values(at=at, kind=kind, subject_id=subject_id, team_id=team_id, body=body)
    )


def events_of(connection: Connection, subject_id: str) -> list[RowMapping]:
    """All events of a subject, oldest first."""
    query = sa.select(event).where(event.c.subject_id == subject_id).order_by(event.c.seq)
    return list(connection.execute(query).mappings())


def first_of(
    connection: Connection, kind: str, subject_ids: Sequence[str]
) -> dict[str, RowMapping]:
    """The first event of a kind of each subject; those without are left out."""
    query = sa.select(event).where(event.c.subject_id.in_(subject_ids), event.c.kind == kind)
    newest_first = connection.execute(query.order_by(event.c.seq.desc())).mappings()
    return {row["subject_id"]: row for row in newest_first}


def store_snapshot(
    connection: Connection, id: str, at: datetime, body: dict[str, Any], policies: list[Any]
) -> None:
    connection.execute(snapshot.insert().values(id=id, at=at, body=body, policies=policies))


def store_decision(
    connection: Connection,
    *,
    id: str,
    snapshot_id: str,
    at: datetime,
    target_kind: str,
    target_id: str,
    action: str,
    body: dict[str, Any],
) -> None:
    connection.execute(
        decision.insert().values(
            id=id,
            snapshot_id=snapshot_id,
            at=at,
            target_kind=target_kind,
            target_id=target_id,
            action=action,
            body=body,
        )
    )


def decisions_of(connection: Connection, target_id: str, limit: int) -> list[RowMapping]:
    """The last decisions of a target, newest first."""
    query = (
        sa.select(decision)
        .where(decision.c.target_id == target_id)
        .order_by(decision.c.at.desc())
        .limit(limit)
    )
    return list(connection.execute(query).mappings())


def stored_snapshot(connection: Connection, id: str) -> RowMapping | None:
    return connection.execute(sa.select(snapshot).where(snapshot.c.id == id)).mappings().first()


def decisions_from(connection: Connection, snapshot_id: str) -> list[RowMapping]:
    query = sa.select(decision).where(decision.c.snapshot_id == snapshot_id)
    return list(connection.execute(query.order_by(decision.c.target_id)).mappings())
