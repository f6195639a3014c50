"""Writes down what was observed: states, adoption, usage, strays. Asks for nothing.

Money follows from here: an interval begins and ends when the provider says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from cost.usage import UsageKind
from policies.world import InstanceState
from provisioner.providers.contract import (
    Capabilities,
    EndReason,
    Listing,
    Machine,
    MachineState,
    NoticeKind,
)
from provisioner.reconcile.belongings import STRAY_GRACE, mirror_belongings
from provisioner.reconcile.observe import Observation
from provisioner.reconcile.planning import intend
from provisioner.store import actions, cooldowns, instances, journal, ledger
from provisioner.store.actions import ActionState, CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.ledger import Fact

I = InstanceState

LOST_AFTER_LISTINGS = 2
SILENT_AFTER = timedelta(seconds=30)
"""An agent that was heard within this time outweighs a listing that lacks its machine."""

_ENDING = (MachineState.TERMINATING, MachineState.TERMINATED)
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
    rows = [
        row
        for row in instances.live(connection, seen.provider)
        if row.offer.region not in listing.silent_regions
    ]
    ours = _ours(rows, listing)
    instances.count_listed(connection, ours, now)
    ledger.add_events(connection, (f for row in rows for f in _usage(row, ours.get(row.id))), now)
    for row in rows:
        if row.id in ours:
            _mirror_machine(connection, row, ours[row.id], capabilities.client_tokens, now)
    missing = [row for row in rows if row.id not in ours and row.machine_id is not None]
    instances.count_missing(connection, [row.id for row in missing])
    for row in missing:
        _mirror_missing(connection, row, capabilities, now)
    known = {machine.id for machine in ours.values()}
    for machine in listing.machines:
        if machine.id not in known and machine.state not in _ENDING:
            _mirror_stray(connection, seen.provider, machine, capabilities, epoch, now)
    _mirror_notices(connection, seen, rows, now)
    mirror_belongings(connection, seen, listing, epoch, now)


def _ours(rows: list[InstanceRow], listing: Listing) -> dict[str, Machine]:
    """The machine of each row, by the row's id.

    Of several with one launch id (a launch that was sent twice where there are no tokens) the one
    whose id is known is the row's, else the first; the others are strays.
    """
    by_launch: dict[str, list[Machine]] = {}
    for machine in listing.machines:
        by_launch.setdefault(machine.launch_id, []).append(machine)
    found: dict[str, Machine] = {}
    for row in rows:
        same = by_launch.get(row.launch_id, ())
        named = [m for m in same if row.machine_id in (None, m.id)]
        if named:
            found[row.id] = min(named, key=lambda m: (m.state in _ENDING, m.id))
    return found


def _mirror_machine(
    connection: Connection, row: InstanceRow, machine: Machine, tokens: bool, now: datetime
) -> None:
    if row.machine_id is None:
        row = _adopt(connection, row, machine, tokens, now)
    if machine.offer_id != row.offer.id and not actions.has_open(connection, row.id):
        instances.note_offer(connection, row, machine.offer_id, now)
    if row.state is I.LOST:
        _reopen(connection, row, machine, now)
    if machine.state is MachineState.TERMINATED:
        _end(connection, row, machine, now)
    elif machine.state is MachineState.STOPPED:
        _stopped(connection, row, machine, now)
    elif machine.state in (MachineState.PENDING, MachineState.RUNNING):
        _running(connection, row, now)


def _adopt(
    connection: Connection, row: InstanceRow, machine: Machine, tokens: bool, now: datetime
) -> InstanceRow:
    """A machine bears this row's launch id: the launch worked, whatever became of its reply.

    While it is pending, the call that makes it may have been cut off half way: with tokens it is
    sent again until it has been answered.
    """
    instances.update(connection, row.id, machine_id=machine.id)
    pending = actions.open_of(connection, row.id)
    half_made = tokens and machine.state is MachineState.PENDING
    if pending is not None and pending.kind is CallKind.LAUNCH and not half_made:
        actions.update(connection, pending.id, ActionState.DONE, now)
    journal.record(
        connection, now, "instance.adopted", row.id, team_id=row.team_id, machine=machine.id
    )
    if row.state is I.PLANNED:
        row = instances.move(connection, row, I.LAUNCHING, "adopted", now)
    if row.state is I.LAUNCHING:
        instances.move(connection, row, I.BOOTING, "adopted", now)
    adopted = instances.get(connection, row.id)
    assert adopted is not None
    return adopted


def _usage(row: InstanceRow, machine: Machine | None) -> Iterator[Fact]:
    """What the machine's listing says about its current or last run."""
    if machine is None:
        return
    started, ended = machine.run_started_at, machine.run_ended_at
    if started is not None:
        yield Fact(row.id, UsageKind.STARTED, started)
    if ended is not None and (started is None or ended >= started):
        over = machine.state is MachineState.TERMINATED
        yield Fact(row.id, UsageKind.ENDED if over else UsageKind.STOPPED, ended)


def _reopen(connection: Connection, row: InstanceRow, machine: Machine, now: datetime) -> None:
    """It was thought lost and is there: the run went on from where it was last seen."""
    lost, started = ledger.lost_at(connection, row.id), machine.run_started_at
    if lost is None or started is None or started > lost:
        return
    # A run that was lost at the very instant of its start needs another instant to start again.
    again = lost if lost > started else lost + timedelta(microseconds=1)
    if machine.run_ended_at is None or machine.run_ended_at > again:
        ledger.add_events(connection, [Fact(row.id, UsageKind.STARTED, again)], now)


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
    pending = actions.open_of(connection, row.id)
    if pending is not None and pending.state is ActionState.INTENDED:
        actions.update(connection, pending.id, ActionState.ABANDONED, now)


def _stopped(connection: Connection, row: InstanceRow, machine: Machine, now: datetime) -> None:
    if row.state is I.STARTING and (actions.has_open(connection, row.id)):
        return  # not asked yet, or the start has not shown in the listing
    if row.state is I.LOST:
        row = instances.move(connection, row, I.READY, "found-again", now)
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


def _mirror_missing(
    connection: Connection, row: InstanceRow, capabilities: Capabilities, now: datetime
) -> None:
    """A machine that was there is not listed: gone only when nothing speaks for it any more."""
    if row.missing_count + 1 < LOST_AFTER_LISTINGS:
        return
    lag = timedelta(seconds=capabilities.listing_lag_s)
    if row.last_listed_at is None and now - row.state_since <= 2 * lag:
        return  # too new to be in a listing
    if row.agent_seen_at is not None and now - row.agent_seen_at < SILENT_AFTER:
        return
    lost = Fact(row.id, UsageKind.LOST, row.seen_at, estimated=True)
    if row.state is I.TERMINATING:
        ledger.add_events(connection, [lost], now)
        instances.move(connection, row, I.TERMINATED, "gone", now, ended_at=row.seen_at)
    elif row.state not in (I.PLANNED, I.FAILED, I.LOST):
        ledger.add_events(connection, [lost], now)
        instances.move(connection, row, I.LOST, "not-listed", now)


def _mirror_stray(
    connection: Connection,
    provider: str,
    machine: Machine,
    capabilities: Capabilities,
    epoch: int,
    now: datetime,
) -> None:
    """Our tag, but no live row of its own: told first, collected after a grace period."""
    row = instances.by_launch_id(connection, machine.launch_id)
    note = cooldowns.see_stray(connection, provider, machine.id, machine.launch_id, now)
    if note["first_seen_at"] == now:
        journal.record(
            connection, now, "machine.stray", machine.launch_id, provider=provider, id=machine.id
        )
    grace = max(STRAY_GRACE, 2 * timedelta(seconds=capabilities.listing_lag_s))
    if row is not None:
        # We ended it ourselves, or it is the twin of another: no reason to wait for anybody.
        grace = timedelta(seconds=capabilities.listing_lag_s)
    if now - note["first_seen_at"] < grace:
        return
    intend(connection, CallKind.COLLECT, f"{provider}/{machine.id}", provider, epoch, now)


def _mirror_notices(
    connection: Connection, seen: Observation, rows: list[InstanceRow], now: datetime
) -> None:
    """What the provider says itself; the agent on the machine may have said it before."""
    by_machine = {row.machine_id: row for row in rows}
    for notice in seen.notices:
        row = by_machine.get(notice.machine_id)
        if row is None:
            continue
        if notice.kind is NoticeKind.RECLAIM:
            instances.note_notice(connection, row, notice.deadline or now, now)
        else:
            journal.record(connection, now, "instance.at-risk", row.id, team_id=row.team_id)
