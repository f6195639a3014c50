"""No transitional state lasts for ever: what is done when one is over its limit."""

from __future__ import annotations

from datetime import datetime, timedelta

from policies.world import InstanceState
from provisioner.reconcile.intents import intend
from provisioner.states import STATE_LIMIT_S
from provisioner.store import actions, cooldowns, instances
from provisioner.store.actions import CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow

I = InstanceState

UNREACHABLE_LIMIT = timedelta(minutes=5)
"""A READY machine whose agent is silent for this long is given up."""
BOOT_COOLDOWN = timedelta(minutes=2)

_AGAIN = {I.STOPPING: CallKind.STOP, I.STARTING: CallKind.START, I.TERMINATING: CallKind.TERMINATE}


def enforce_deadlines(connection: Connection, epoch: int, now: datetime) -> None:
    """Move on every instance whose state is over its limit."""
    for row in instances.live(connection):
        limit = STATE_LIMIT_S.get(row.state)
        if limit is not None and now - row.state_since > timedelta(seconds=limit):
            _overdue(connection, row, epoch, now)
        elif row.state is I.READY and _silent(row, now):
            _terminate(connection, row, "unreachable", epoch, now)


def _overdue(connection: Connection, row: InstanceRow, epoch: int, now: datetime) -> None:
    if actions.has_open(connection, row.id):
        return  # its retry is due by its own clock
    if row.state is I.PLANNED:
        instances.move(connection, row, I.FAILED, "never-launched", now)
    elif row.state is I.LOST:
        instances.move(
            connection, row, I.TERMINATED, "lost", now, ended_at=row.last_listed_at or now
        )
    elif row.state in _AGAIN:
        instances.update(connection, row.id, state_since=now)
        intend(connection, _AGAIN[row.state], row.id, row.provider, epoch, now)
    else:
        if row.state is I.BOOTING:
            reason = "the agent did not call in"
            cooldowns.cool(connection, row.offer.id, reason, BOOT_COOLDOWN, now)
        _terminate(connection, row, f"{row.state}-timeout", epoch, now)


def _silent(row: InstanceRow, now: datetime) -> bool:
    heard = max(t for t in (row.agent_seen_at, row.ready_at, row.state_since) if t is not None)
    return now - heard > UNREACHABLE_LIMIT


def _terminate(
    connection: Connection, row: InstanceRow, reason: str, epoch: int, now: datetime
) -> None:
    instances.move(connection, row, I.TERMINATING, reason, now)
    intend(connection, CallKind.TERMINATE, row.id, row.provider, epoch, now)
