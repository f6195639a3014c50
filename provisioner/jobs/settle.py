"""Moves jobs on by what their machines and agents reported; launches nothing.

PLACING -> RUNNING        the agent runs the task
RUNNING -> SUCCEEDED      all ranks exited with 0
RUNNING -> INTERRUPTED    the machine went away, or the task left on a notice
        -> QUEUED         at once, to be placed again and resumed from its checkpoint
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from policies.world import InstanceState, JobState
from provisioner.errors import ConflictError
from provisioner.store import instances, jobs, ledger
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.jobs import AttemptRow, JobRow

I, J = InstanceState, JobState

LEFT_ON_NOTICE = 75
"""Exit code (EX_TEMPFAIL) of a rank that saved its work and can be resumed."""
SHIPPING_LIMIT = timedelta(seconds=30)
"""How long an ended task's last output is waited for."""
NEVER_STARTED_LIMIT = 5
"""So many machines in a row that never ran the task end the job: each one costs money."""
_PERMANENT = {"invalid-request"}
_LAUNCH_BACKOFF = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    state: str  # of the attempt: succeeded | failed | interrupted | unplaced
    reason: str
    message: str | None = None


def settle(connection: Connection, now: datetime) -> None:
    """Bring every unfinished job up to date."""
    attempts = jobs.attempts_of_unfinished(connection)
    machines_by_job = instances.of_open_attempts(connection)
    for row in jobs.unfinished(connection):
        attempt = next((a for a in attempts.get(row.id, ()) if _is_current(a, row)), None)
        if attempt is None:
            continue
        machines = machines_by_job.get(row.id, [])
        reports = [_report(machine, attempt) for machine in machines]
        runs = row.state is J.PLACING and any(r and r["state"] != "starting" for r in reports)
        outcome = _outcome(machines, reports, now, told_done=row.result is not None)
        if not runs and outcome is None:
            continue
        try:
            with connection.begin_nested():
                _move(connection, row, attempt, now, runs=runs, outcome=outcome)
        except ConflictError:
            continue  # a person cancelled it meanwhile; the next tick sees that


def _move(
    connection: Connection,
    row: JobRow,
    attempt: AttemptRow,
    now: datetime,
    *,
    runs: bool,
    outcome: Outcome | None,
) -> None:
    if runs:
        jobs.update_attempt(connection, attempt.id, running_at=now)
        started = row.started_at or now
        row = jobs.move(
            connection, row, J.RUNNING, "running", now, started_at=started, no_spot_since=None
        )
    if outcome is not None:
        _close(connection, row, attempt, outcome, now)


def runtime(attempts: list[AttemptRow], now: datetime) -> timedelta:
    """How long a job has run, over all its attempts."""
    spans = ((a.ended_at or now) - a.running_at for a in attempts if a.running_at is not None)
    return sum(spans, timedelta())


def _is_current(attempt: AttemptRow, row: JobRow) -> bool:
    return attempt.state == "open" and attempt.number == row.attempt


def _report(machine: InstanceRow, attempt: AttemptRow) -> dict[str, Any] | None:
    """What the machine's agent last said of this attempt's task."""
    tasks = (machine.agent or {}).get("tasks", [])
    return next((task for task in tasks if task["id"] == attempt.id), None)


def _outcome(
    machines: list[InstanceRow],
    reports: list[dict[str, Any] | None],
    now: datetime,
    *,
    told_done: bool,
) -> Outcome | None:
    exits = [_exit(r, m, now, told_done) for r, m in zip(reports, machines, strict=True)]
    for found in exits:
        if found is not None and found.state != "succeeded":
            return found
    if machines and all(found is not None for found in exits):
        return Outcome("succeeded", "completed")
    for machine in machines:
        if not machine.state.live or machine.state in (I.LOST, I.TERMINATING):
            return _lost(machine)
    return None


def _exit(
    report: dict[str, Any] | None, machine: InstanceRow, now: datetime, told_done: bool
) -> Outcome | None:
    """The outcome of a task that has exited; None while it has not, or its last words are due.

    A command that ends with 0 while it is made to leave may have saved itself only: it counts as
    complete when its progress says "done".
    """
    if report is None or report["state"] != "exited":
        return None
    code, message = report.get("exit_code"), report.get("message")
    complete = code == 0 and told_done
    if code == LEFT_ON_NOTICE or (report.get("drained") and not complete):
        return Outcome("interrupted", _why_left(machine), message)
    if code is None and report.get("signal") is None:
        return Outcome("interrupted", "task-lost", message or "Nobody saw how the task ended.")
    if not report.get("shipped", True) and _may_speak(machine, now):
        return None
    if code == 0:
        return Outcome("succeeded", "completed")
    what = f"it ended with exit code {code}" if code is not None else "it was killed"
    return Outcome("failed", "task-failed", message or f"The job's command failed: {what}.")


def _why_left(machine: InstanceRow) -> str:
    if machine.notice_deadline is not None:
        return "reclaim-notice"
    return "task-left" if machine.state is I.READY else machine.reason


def _may_speak(machine: InstanceRow, now: datetime) -> bool:
    """Whether the machine can still send the rest of a task's output."""
    heard = machine.agent_seen_at
    return (
        machine.state in (I.READY, I.DRAINING, I.BOOTING)
        and heard is not None
        and now - heard < SHIPPING_LIMIT
    )


def _lost(machine: InstanceRow) -> Outcome:
    if machine.reason in _PERMANENT:
        return Outcome("failed", machine.reason, machine.message)
    if machine.state is I.FAILED:
        return Outcome("unplaced", machine.reason, machine.message)
    return Outcome("interrupted", machine.reason, machine.message)


def _close(
    connection: Connection, row: JobRow, attempt: AttemptRow, outcome: Outcome, now: datetime
) -> None:
    jobs.update_attempt(
        connection,
        attempt.id,
        state=outcome.state,
        reason=outcome.reason,
        message=outcome.message,
        ended_at=now,
    )
    if outcome.state in ("interrupted", "unplaced"):
        attempts = jobs.attempts(connection, row.id)
        if runtime(attempts, now).total_seconds() >= row.max_runtime_s:
            outcome = Outcome("failed", "time-limit", _over_limit(row))
        elif _never_starts(attempts):
            outcome = Outcome("failed", "never-started", _unstarted(row, outcome))
        else:
            _requeue(connection, row, attempt, outcome, now)
            return
    state = J.SUCCEEDED if outcome.state == "succeeded" else J.FAILED
    if row.state is J.PLACING and state is J.SUCCEEDED:
        row = jobs.move(connection, row, J.RUNNING, "running", now, started_at=now)
    jobs.move(connection, row, state, outcome.reason, now, message=outcome.message)
    ledger.release(connection, row.id, now)


def _requeue(
    connection: Connection, row: JobRow, attempt: AttemptRow, outcome: Outcome, now: datetime
) -> None:
    """To the queue again; a machine that never got to run the task costs a moment's pause."""
    if outcome.state == "interrupted":
        row = jobs.move(
            connection, row, J.INTERRUPTED, outcome.reason, now, message=outcome.message
        )
    paused = outcome.state == "interrupted" and attempt.running_at is None
    jobs.move(
        connection,
        row,
        J.QUEUED,
        outcome.reason,
        now,
        message=outcome.message,
        not_before=now + _LAUNCH_BACKOFF if paused else None,
    )


def _never_starts(attempts: list[AttemptRow]) -> bool:
    """Whether the last machines were paid for and never ran the task."""
    bought = [a for a in attempts if a.state != "unplaced"][-NEVER_STARTED_LIMIT:]
    return len(bought) == NEVER_STARTED_LIMIT and all(a.running_at is None for a in bought)


def enforce_time_limits(connection: Connection, now: datetime) -> None:
    """End jobs that have run for as long as they asked for: the budget counts on it."""
    known = jobs.attempts_of_unfinished(connection)
    for row in jobs.unfinished(connection):
        if row.state is not J.RUNNING:
            continue
        attempts = known.get(row.id, [])
        if runtime(attempts, now).total_seconds() < row.max_runtime_s:
            continue
        for attempt in attempts:
            if attempt.state == "open":
                jobs.update_attempt(
                    connection, attempt.id, state="failed", reason="time-limit", ended_at=now
                )
        jobs.move(connection, row, J.FAILED, "time-limit", now, message=_over_limit(row))
        ledger.release(connection, row.id, now)


def _unstarted(row: JobRow, outcome: Outcome) -> str:
    return (
        f"{NEVER_STARTED_LIMIT} machines in a row never ran the job; the last one: "
        f"{outcome.message or outcome.reason}. Look at it with `roost policy explain {row.name}`."
    )


def _over_limit(row: JobRow) -> str:
    return (
        f"The job ran for its whole max_runtime of {row.max_runtime_s:.0f} s without ending; "
        "submit it again with a longer one, and it resumes from its last checkpoint "
        f"if it gets the same checkpoint folder {row.checkpoint_uri}."
    )
