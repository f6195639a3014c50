"""Intents: each provider call is a row before it is a call.

`intended -> submitted -> done | failed | abandoned`; at most one open action a subject, which the
database itself enforces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from provisioner.store.tables import action


class CallKind(StrEnum):
    """The calls that change something at a provider."""

    LAUNCH = "launch"
    START = "start"
    STOP = "stop"
    TERMINATE = "terminate"
    DELETE_VOLUME = "delete-volume"
    COLLECT = "collect"
    """Terminate a machine that has our tag and no row; the subject is `provider/machine`."""
    TIDY = "tidy"
    """Delete a leftover; the subject is `provider/kind/id`."""


class ActionState(StrEnum):
    INTENDED = "intended"
    SUBMITTED = "submitted"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"


OPEN = (ActionState.INTENDED.value, ActionState.SUBMITTED.value)


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One intent; columns as in the table."""

    id: str
    kind: CallKind
    subject_id: str
    provider: str
    state: ActionState
    epoch: int
    tries: int
    not_before: datetime
    error_code: str | None
    error: str | None
    decision_id: str | None
    created_at: datetime
    updated_at: datetime


def insert(connection: Connection, row: ActionRow) -> bool:
    """Record an intent; False when its subject has an open one already."""
    values = {name: getattr(row, name) for name in ActionRow.__dataclass_fields__}
    if has_open(connection, row.subject_id):
        return False
    connection.execute(action.insert().values(values))
    return True


def has_open(connection: Connection, subject_id: str) -> bool:
    return open_of(connection, subject_id) is not None


def open_of(connection: Connection, subject_id: str) -> ActionRow | None:
    """The one open action of a subject."""
    query = sa.select(action).where(action.c.subject_id == subject_id, action.c.state.in_(OPEN))
    mapping = connection.execute(query).mappings().first()
    return None if mapping is None else _row(mapping)


def due(connection: Connection, now: datetime) -> list[ActionRow]:
    """Open actions whose time has come, oldest first."""
    query = sa.select(action).where(action.c.state.in_(OPEN), action.c.not_before <= now)
    query = query.order_by(action.c.created_at, action.c.id)
    return [_row(m) for m in connection.execute(query).mappings()]


def launched_at(connection: Connection, instance_ids: Sequence[str]) -> dict[str, datetime]:
    """When the provider accepted the launch of each instance; those without are left out."""
    query = sa.select(action.c.subject_id, action.c.updated_at).where(
        action.c.subject_id.in_(instance_ids),
        action.c.kind == CallKind.LAUNCH,
        action.c.state == ActionState.DONE,
    )
    return {row.subject_id: row.updated_at for row in connection.execute(query)}


def get(connection: Connection, id: str) -> ActionRow | None:
    mapping = connection.execute(sa.select(action).where(action.c.id == id)).mappings().first()
    return None if mapping is None else _row(mapping)


def update(
    connection: Connection, id: str, state: ActionState, now: datetime, **values: Any
) -> None:
    connection.execute(
        action.update()
        .where(action.c.id == id)
        .values({"state": state, "updated_at": now, **values})
    )


def _row(mapping: RowMapping) -> ActionRow:
    return ActionRow(
        **{
            **mapping,
            "kind": CallKind(mapping["kind"]),
            "state": ActionState(mapping["state"]),
        }
    )
