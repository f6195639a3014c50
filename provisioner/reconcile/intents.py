"""From decisions to rows: each is checked against the state of now and recorded as an intent."""

from __future__ import annotations

from policies.plan import ActionKind, Decision, Rank, TargetKind
from policies.world import (
    Desire,
    InstanceState,
    JobState,
    OwnerKind,
)
from provisioner.ids import new_id
from provisioner.reconcile.planning import Tick, intend, plan_instance
from provisioner.store import actions, instances, jobs, journal, ledger, workstations
from provisioner.store.actions import ActionState, CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.jobs import AttemptRow

I = InstanceState
_SWITCHES = {ActionKind.LAUNCH, ActionKind.START, ActionKind.STOP, ActionKind.TERMINATE}


def record(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    """Turn one decision into rows; nothing when the world has moved on since the snapshot."""
    if _is_overtaken(connection, decision, tick):
        return
    handler = {
        ActionKind.LAUNCH: _launch,
        ActionKind.START: _start,
        ActionKind.STOP: _stop,
        ActionKind.TERMINATE: _terminate,
        ActionKind.DRAIN: _drain,
        ActionKind.DELETE_VOLUME: _delete_volume,
        ActionKind.WARN: _warn,
        ActionKind.NOTIFY: _notify,
        ActionKind.NOTHING: _nothing,
    }[decision.action]
    handler(connection, decision, decision_id, tick)


def _is_overtaken(connection: Connection, decision: Decision, tick: Tick) -> bool:
    """Whether a person has spoken, or used the desk that was idle, since it was decided."""
    if decision.target_kind is not TargetKind.WORKSTATION or decision.action not in _SWITCHES:
        return False
    row, seen = workstations.get(connection, decision.target_id), tick.desks.get(decision.target_id)
    if row is None or seen is None:
        return False
    idle = any(reason.rank is Rank.IDLE for reason in decision.because)
    hold = (None, None) if seen.hold is None else (seen.hold.kind, seen.hold.until)
    return (
        row.desire is not seen.desire
        or row.started_by_person_at != seen.started_by_person_at
        or (row.hold_kind, row.hold_until) != hold
        or (idle and row.last_activity_at != seen.last_activity_at)
    )


def _launch(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    if decision.target_kind is TargetKind.WORKSTATION:
        _launch_workstation(connection, decision, decision_id, tick)
    elif decision.target_kind is TargetKind.JOB:
        _launch_job(connection, decision, decision_id, tick)


def _launch_workstation(
    connection: Connection, decision: Decision, decision_id: str, tick: Tick
) -> None:
    id = decision.target_id
    row = workstations.get(connection, id)
    if row is None or row.desire is not Desire.ON:
        return
    if instances.live_of_owner(connection, id):
        return
    attempt = row.attempt + 1
    workstations.update(connection, id, attempt=attempt, trouble=None)
    plan_instance(
        connection,
        decision.offers,
        decision_id,
        tick,
        owner_kind=OwnerKind.WORKSTATION,
        owner_id=id,
        team_id=row.team_id,
        generation=row.generation,
        attempt=attempt,
        volume_id=row.volume_id,
    )


def _launch_job(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    id = decision.target_id
    row = jobs.get(connection, id)
    if row is None or row.state is not JobState.QUEUED:
        return
    number = row.attempt + 1
    jobs.move(connection, row, JobState.PLACING, "placing", tick.now, attempt=number)
    jobs.insert_attempt(
        connection,
        AttemptRow(
            id=new_id("att"),
            job_id=id,
            number=number,
            state="open",
            reason=None,
            message=None,
            created_at=tick.now,
            running_at=None,
            first_step_at=None,
            ended_at=None,
            resumed_step=None,
            step=None,
            checkpoint_step=None,
        ),
    )
    for slot in range(row.nodes):
        plan_instance(
            connection,
            decision.offers,
            decision_id,
            tick,
            owner_kind=OwnerKind.JOB,
            owner_id=id,
            team_id=row.team_id,
            generation=1,
            attempt=number,
            slot=slot,
        )


def _start(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    row = _subject(connection, decision)
    if row is not None and row.state in (I.STOPPED, I.HIBERNATED):
        _begin(connection, CallKind.START, row, I.STARTING, decision, decision_id, tick)


def _stop(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    _switch_off(connection, decision, tick)
    row = _subject(connection, decision)
    if row is not None and row.state in (I.READY, I.BOOTING):
        _begin(connection, CallKind.STOP, row, I.STOPPING, decision, decision_id, tick)


def _terminate(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    if decision.target_kind is TargetKind.WORKSTATION:
        _switch_off(connection, decision, tick)
    row = _subject(connection, decision)
    if row is None or row.state is I.TERMINATING or not row.state.live:
        return
    pending = actions.open_of(connection, row.id)
    if pending is not None and pending.kind is not CallKind.TERMINATE:
        if pending.state is ActionState.SUBMITTED:
            return  # its outcome must be known first
        actions.update(connection, pending.id, ActionState.ABANDONED, tick.now)
    if row.state is I.PLANNED:
        instances.move(connection, row, I.TERMINATED, _why(decision), tick.now)
        return
    _begin(connection, CallKind.TERMINATE, row, I.TERMINATING, decision, decision_id, tick)


def _begin(
    connection: Connection,
    kind: CallKind,
    row: InstanceRow,
    state: InstanceState,
    decision: Decision,
    decision_id: str,
    tick: Tick,
) -> None:
    """Intend a call and take the instance to the state that leads there; not beside another."""
    if intend(connection, kind, row.id, row.provider, tick.epoch, tick.now, decision_id):
        instances.move(connection, row, state, _why(decision), tick.now)


def _switch_off(connection: Connection, decision: Decision, tick: Tick) -> None:
    """A rule's stop is kept: only a person turns the workstation on again."""
    if decision.target_kind is not TargetKind.WORKSTATION:
        return
    row = workstations.get(connection, decision.target_id)
    if row is None or row.desire is not Desire.ON:
        return
    reason = decision.because[0].rank.value if decision.because else "policy"
    workstations.update(
        connection,
        row.id,
        desire=Desire.OFF,
        desire_reason=reason,
        warned_at=None,
        waiting_since=None,
    )
    ledger.release(connection, row.id, tick.now)
    journal.record(
        connection,
        tick.now,
        "workstation.stopped",
        row.id,
        team_id=row.team_id,
        reason=reason,
        text=decision.because[0].text if decision.because else None,
    )


def _drain(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    for row in _drained(connection, decision):
        if row.state is I.READY:
            why = _why(decision)
            instances.move(connection, row, I.DRAINING, why, tick.now, decision_id=decision_id)


def _drained(connection: Connection, decision: Decision) -> list[InstanceRow]:
    if decision.target_kind is TargetKind.JOB:
        return instances.live_of_owner(connection, decision.target_id)
    row = _subject(connection, decision)
    return [] if row is None else [row]


def _delete_volume(
    connection: Connection, decision: Decision, decision_id: str, tick: Tick
) -> None:
    row = workstations.get(connection, decision.target_id)
    if row is None or row.deleted_at is not None:
        return
    volume = workstations.volume_of(connection, row.volume_id)
    if volume["deleted_at"] is not None:
        workstations.update(connection, row.id, deleted_at=tick.now)
    elif not volume["seen"]:
        workstations.update_volume(connection, volume["id"], deleted_at=tick.now)
    else:
        workstations.update_volume(connection, volume["id"], deleting=True)
        kind, provider = CallKind.DELETE_VOLUME, volume["provider"]
        intend(connection, kind, volume["id"], provider, tick.epoch, tick.now, decision_id)


def _warn(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    row = workstations.get(connection, decision.target_id)
    if row is None:
        return
    # Also when it was warned before: that was of another stop, and this one has its own time.
    workstations.update(connection, row.id, warned_at=tick.now)
    _tell(connection, "workstation.warned", decision, decision_id, tick, row.team_id)


def _notify(connection: Connection, decision: Decision, decision_id: str, tick: Tick) -> None:
    kind = f"{decision.target_kind}.notice"
    _tell(connection, kind, decision, decision_id, tick, None)


def _nothing(connection: Connection, decision: Decision, _id: str, tick: Tick) -> None:
    desk = tick.desks.get(decision.target_id)
    if desk is not None and desk.warned_at is not None and decision.acts_at is None:
        workstations.update(connection, decision.target_id, warned_at=None)


def _tell(
    connection: Connection,
    kind: str,
    decision: Decision,
    decision_id: str,
    tick: Tick,
    team_id: str | None,
) -> None:
    journal.record(
        connection,
        tick.now,
        kind,
        decision.target_id,
        team_id=team_id,
        decision=decision_id,
        text="; ".join(reason.text for reason in decision.because),
    )


def _subject(connection: Connection, decision: Decision) -> InstanceRow | None:
    return instances.get(connection, decision.instance_id) if decision.instance_id else None


def _why(decision: Decision) -> str:
    if not decision.because:
        return "decided"
    first = decision.because[0]
    if first.rank is Rank.DESIRE:
        return "wanted"
    return first.rule[:32] if first.rank is Rank.SAFETY else first.rank.value
