"""Writes down what was observed: states, adoption, usage, strays. Asks for nothing.

Money follows from here: an interval begins and ends when the provider says so.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cost.usage import UsageKind
from policies.world import InstanceState
from provisioner.providers.contract import (
    Capabilities,
    EndReason,
    Listing,
    Machine,
    MachineState,
)
from provisioner.reconcile.intents import intend
from provisioner.reconcile.observe import Observation
from provisioner.store import actions, cooldowns, instances, journal, ledger, workstations
from provisioner.store.actions import ActionState, CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow

I = InstanceState

STRAY_GRACE = timedelta(minutes=10)
LOST_AFTER_LISTINGS = 2
SILENT_AFTER = timedelta(seconds=30)
"""An agent that was heard within this time outweighs a listing that lacks its machine."""

_REASONS = {
    EndReason.RECLAIMED: "reclaimed",
    EndReason.ASKED: "terminated",
    EndReason.FAILED: "machine-failed",
    EndReason.UNKNOWN: "ended",
    None: "ended",
}


def mirror(
    connection: Connection,
    seen: Observation,
    capabilities: Capabilities,
    epoch: int,
    now: datetime,
) -> None:
    """Bring the rows of one provider up to date with what it said."""
    listing = seen.listing
    if listing is None:
        return
    for series, points in seen.prices.items():
        ledger.add_prices(connection, series, points)
    machines = {machine.launch_id: machine for machine in listing.machines}
    missing = []
    for row in instances.live(connection, seen.provider):
        machine = machines.get(row.launch_id)
        if machine is not None:
            _mirror_machine(connection, row, machine, now)
        elif row.machine_id is not None:
            missing.append(row)
    instances.count_missing(connection, [row.id for row in missing])
    for row in missing:
        _mirror_missing(connection, row, now)
    for machine in listing.machines:
        if machine.state is not MachineState.TERMINATED:
            _mirror_stray(connection, seen.provider, machine, capabilities, epoch, now)
    _mirror_volumes(connection, seen.provider, listing, now)


def _mirror_machine(
    connection: Connection, row: InstanceRow, machine: Machine, now: datetime
) -> None:
    changes = {"machine_id": machine.id, "missing_count": 0, "last_listed_at": now}
    instances.update(connection, row.id, **changes)
    if row.machine_id is None:
        _adopt(connection, row, machine, now)
        adopted = instances.get(connection, row.id)
        assert adopted is not None
        row = adopted
    _meter(connection, row, machine, now)
    if machine.state is MachineState.TERMINATED:
        _end(connection, row, machine, now)
    elif machine.state is MachineState.STOPPED:
        _stopped(connection, row, machine, now)
    elif machine.state in (MachineState.PENDING, MachineState.RUNNING):
        _running(connection, row, now)


def _adopt(connection: Connection, row: InstanceRow, machine: Machine, now: datetime) -> None:
    """A machine bears this row's launch id: the launch worked, whatever became of its reply."""
    pending = actions.open_by_subject(connection).get(row.id)
    if pending is not None and pending.kind is CallKind.LAUNCH:
        actions.update(connection, pending.id, ActionState.DONE, now)
    journal.record(
        connection, now, "instance.adopted", row.id, team_id=row.team_id, machine=machine.id
    )
    if row.state is I.PLANNED:
        row = instances.move(connection, row, I.LAUNCHING, "adopted", now)
    if row.state is I.LAUNCHING:
        instances.move(connection, row, I.BOOTING, "adopted", now)


def _meter(connection: Connection, row: InstanceRow, machine: Machine, now: datetime) -> None:
    started, ended = machine.run_started_at, machine.run_ended_at
    if started is not None:
        ledger.add_event(connection, row.id, UsageKind.STARTED, started, now)
    if ended is not None and (started is None or ended >= started):
        over = machine.state is MachineState.TERMINATED
        ledger.add_event(
            connection, row.id, UsageKind.ENDED if over else UsageKind.STOPPED, ended, now
        )


def _end(connection: Connection, row: InstanceRow, machine: Machine, now: datetime) -> None:
    reason = _REASONS[machine.end_reason]
    instances.move(
        connection,
        row,
        I.TERMINATED,
        reason,
        now,
        message=machine.message or None,
        ended_at=machine.run_ended_at or now,
    )
    pending = actions.open_by_subject(connection).get(row.id)
    if pending is not None and pending.state is ActionState.INTENDED:
        actions.update(connection, pending.id, ActionState.ABANDONED, now)


def _stopped(connection: Connection, row: InstanceRow, machine: Machine, now: datetime) -> None:
    if row.state is I.STARTING and (actions.has_open(connection, row.id)):
        return  # not asked yet, or the start has not shown in the listing
    if row.state in (I.STOPPING, I.READY, I.BOOTING, I.STARTING):
        reason = "stopped" if row.state is I.STOPPING else "stopped-outside"
        message = machine.message or None
        instances.move(connection, row, I.STOPPED, reason, now, message=message, ready_at=None)


def _running(connection: Connection, row: InstanceRow, now: datetime) -> None:
    if row.state is I.STARTING:
        row = instances.move(connection, row, I.BOOTING, "started", now)
    if row.state is I.LAUNCHING:
        row = instances.move(connection, row, I.BOOTING, "launched", now)
    heard = row.agent_seen_at is not None and row.agent_seen_at >= row.state_since
    if row.state is I.BOOTING and heard:
        instances.move(connection, row, I.READY, "agent-ready", now, ready_at=now)
        cooldowns.clear(connection, row.offer.id)
    elif row.state is I.LOST:
        instances.move(connection, row, I.READY, "found-again", now)


def _mirror_missing(connection: Connection, row: InstanceRow, now: datetime) -> None:
    """A machine that was there is not listed: gone only when nothing speaks for it any more."""
    if row.missing_count + 1 < LOST_AFTER_LISTINGS:
        return
    last_seen = max(
        t for t in (row.agent_seen_at, row.last_listed_at, row.created_at) if t is not None
    )
    if row.agent_seen_at is not None and now - row.agent_seen_at < SILENT_AFTER:
        return
    if row.state is I.TERMINATING:
        ledger.add_event(connection, row.id, UsageKind.LOST, last_seen, now, estimated=True)
        instances.move(connection, row, I.TERMINATED, "gone", now, ended_at=last_seen)
    elif row.state not in (I.PLANNED, I.FAILED, I.LOST):
        ledger.add_event(connection, row.id, UsageKind.LOST, last_seen, now, estimated=True)
        instances.move(connection, row, I.LOST, "not-listed", now)


def _mirror_stray(
    connection: Connection,
    provider: str,
    machine: Machine,
    capabilities: Capabilities,
    epoch: int,
    now: datetime,
) -> None:
    """Our tag, but no live row: told first, collected after a grace period."""
    row = instances.by_launch_id(connection, machine.launch_id)
    if row is not None and row.state.live:
        return
    note = cooldowns.see_stray(connection, provider, machine.id, machine.launch_id, now)
    if note["first_seen_at"] == now:
        journal.record(
            connection, now, "machine.stray", machine.launch_id, provider=provider, id=machine.id
        )
    grace = max(STRAY_GRACE, 2 * timedelta(seconds=capabilities.listing_lag_s))
    if row is not None:
        # We ended it ourselves and it runs all the same: no reason to wait for anybody.
        grace = timedelta(seconds=capabilities.listing_lag_s)
    if now - note["first_seen_at"] < grace:
        return
    intend(connection, CallKind.COLLECT, f"{provider}/{machine.id}", provider, epoch, now)


def _mirror_volumes(connection: Connection, provider: str, listing: Listing, now: datetime) -> None:
    listed = {volume.id: volume for volume in listing.volumes}
    for row in workstations.volumes(connection, provider):
        found = listed.get(row["id"])
        if found is not None:
            ledger.add_event(connection, row["id"], UsageKind.STARTED, found.created_at, now)
            if not row["seen"]:
                workstations.update_volume(connection, row["id"], seen=True)
        elif row["seen"] and row["deleting"]:
            ledger.add_event(connection, row["id"], UsageKind.ENDED, now, now)
            workstations.update_volume(connection, row["id"], deleted_at=now)
