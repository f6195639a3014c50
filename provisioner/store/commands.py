"""Commands that people run on their workstations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from policies.world import InstanceState
from provisioner.store.instances import LIVE
from provisioner.store.tables import command, instance

_OFF = "The machine stopped before it answered; start the workstation and ask again."


def insert(
    connection: Connection,
    *,
    id: str,
    workstation_id: str,
    instance_id: str,
    asked_by: str,
    argv: list[str],
    timeout_s: float,
    now: datetime,
) -> None:
    connection.execute(
        command.insert().values(
            id=id,
            workstation_id=workstation_id,
            instance_id=instance_id,
            asked_by=asked_by,
            argv=argv,
            timeout_s=timeout_s,
            state="queued",
            created_at=now,
        )
    )


def get(connection: Connection, id: str) -> RowMapping | None:
    return connection.execute(sa.select(command).where(command.c.id == id)).mappings().first()


def pending(connection: Connection, instance_id: str) -> list[RowMapping]:
    """What the agent of an instance has not answered yet."""
    query = sa.select(command).where(
        command.c.instance_id == instance_id, command.c.state == "queued"
    )
    return list(connection.execute(query.order_by(command.c.created_at)).mappings())


def answer(connection: Connection, id: str, state: str, result: Any, now: datetime) -> bool:
    """Keep the first answer to a command; False when it has one."""
    changed = connection.execute(
        command.update()
        .where(command.c.id == id, command.c.state == "queued")
        .values(state=state, result=result, ended_at=now)
    )
    return changed.rowcount == 1


def fail_unanswerable(connection: Connection, now: datetime) -> None:
    """Answer what machines that have stopped or ended can no longer answer."""
    sleeping = instance.c.state.in_((InstanceState.STOPPED, InstanceState.HIBERNATED))
    off = sa.select(instance.c.id).where(sa.or_(sleeping, instance.c.state.not_in(LIVE)))
    connection.execute(
        command.update()
        .where(command.c.state == "queued", command.c.instance_id.in_(off))
        .values(state="failed", result={"error": _OFF}, ended_at=now)
    )
