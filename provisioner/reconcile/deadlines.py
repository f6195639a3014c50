"""No transitional state lasts for ever: what is done when one is over its limit."""

from __future__ import annotations

from datetime import datetime, timedelta

from cost.usage import UsageKind
from policies.world import InstanceState
from provisioner.reconcile.planning import intend
from provisioner.states import STATE_LIMIT_S
from provisioner.store import actions, cooldowns, instances, ledger
from provisioner.store.actions import ActionState, CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.ledger import Fact

I = InstanceState

UNREACHABLE_LIMIT = timedelta(minutes=5)
"""A READY machine whose agent is silent for this long is given up."""
BOOT_COOLDOWN = timedelta(minutes=2)

_GIVEN_UP = (I.PLANNED, I.LAUNCHING, I.STARTING)
"""A call that was refused for so long is not made any more: its owner is served elsewhere."""
_AGAIN = {I.STOPPING: CallKind.STOP, I.STARTING: CallKind.START, I.TERMINATING: CallKind.TERMINATE}


def enforce_deadlines(
    connection: Connection, epoch: int, listening_since: datetime, now: datetime
) -> None:
    """Move on every instance whose state is over its limit.

    While nobody listened no agent could call in, so its silence counts from `listening_since`.
    """
    for row in instances.overdue(connection, STATE_LIMIT_S, now - UNREACHABLE_LIMIT):
        limit = STATE_LIMIT_S.get(row.state)
        since = row.state_since
        if row.state is I.BOOTING:  # which ends when its agent calls in
            since = max(since, listening_since)
        if limit is not None and now - since > timedelta(seconds=limit):
            _overdue(connection, row, epoch, now)
        elif row.state is I.READY and _silent(row, listening_since, now):
            _terminate(connection, row, "unreachable", epoch, now)


def _overdue(connection: Connection, row: InstanceRow, epoch: int, now: datetime) -> None:
    pending = actions.open_of(connection, row.id)
    if pending is not None:
        if row.state not in _GIVEN_UP or pending.state is ActionState.SUBMITTED:
            return  # its retry is due by its own clock
        actions.update(connection, pending.id, ActionState.ABANDONED, now)
    if row.state is I.PLANNED:
        instances.move(connection, row, I.FAILED, "never-launched", now)
    elif row.state is I.LOST and row.missing_count > 0:
        lost = Fact(row.id, UsageKind.LOST, row.seen_at, estimated=True)
        ledger.add_events(connection, [lost], now)
        instances.move(connection, row, I.TERMINATED, "lost", now, ended_at=row.seen_at)
    elif row.state in _AGAIN and pending is None:
        instances.update(connection, row.id, state_since=now)
        intend(connection, _AGAIN[row.state], row.id, row.provider, epoch, now)
    else:
        if row.state is I.BOOTING:
            reason = "the agent did not call in"
            cooldowns.cool(connection, row.offer.id, reason, BOOT_COOLDOWN, now)
        _terminate(connection, row, f"{row.state}-timeout", epoch, now)


def _silent(row: InstanceRow, listening_since: datetime, now: datetime) -> bool:
    signs = (row.agent_seen_at, row.ready_at, row.state_since, listening_since)
    return now - max(sign for sign in signs if sign is not None) > UNREACHABLE_LIMIT


def _terminate(
    connection: Connection, row: InstanceRow, reason: str, epoch: int, now: datetime
) -> None:
    instances.move(connection, row, I.TERMINATING, reason, now)
    intend(connection, CallKind.TERMINATE, row.id, row.provider, epoch, now)
