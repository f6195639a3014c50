"""Job and attempt rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from policies.world import JobState, Needs
from provisioner.errors import ConflictError
from provisioner.states import check_job_move
from provisioner.store import journal
from provisioner.store.codec import needs_from_json, needs_to_json
from provisioner.store.tables import attempt, job

ENDED = tuple(state.value for state in JobState if state.ended)


@dataclass(frozen=True, slots=True)
class JobRow:
    """One training job; columns as in the table."""

    id: str
    name: str
    team_id: str
    owner_id: str
    needs: Needs
    labels: dict[str, str]
    task: dict[str, Any]
    """What its ranks run: argv, env, nproc, threads, grace_s."""
    nodes: int
    checkpoint_uri: str
    deadline: datetime | None
    max_runtime_s: float
    state: JobState
    reason: str
    message: str | None
    attempt: int
    queued_at: datetime
    no_spot_since: datetime | None
    not_before: datetime | None
    step: int | None
    total_steps: int | None
    result: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try at a job, on one set of machines."""

    id: str
    job_id: str
    number: int
    state: str
    """open | succeeded | failed | interrupted | unplaced (it never got a machine) | cancelled"""
    reason: str | None
    message: str | None
    created_at: datetime
    running_at: datetime | None
    first_step_at: datetime | None
    ended_at: datetime | None
    resumed_step: int | None
    step: int | None
    checkpoint_step: int | None


def insert(connection: Connection, row: JobRow) -> None:
    values = {name: getattr(row, name) for name in JobRow.__dataclass_fields__}
    connection.execute(job.insert().values(values | {"needs": needs_to_json(row.needs)}))


def get(connection: Connection, id: str) -> JobRow | None:
    rows = select(connection, job.c.id == id)
    return rows[0] if rows else None


def unfinished(connection: Connection) -> list[JobRow]:
    """All jobs that have not ended, oldest first."""
    return select(connection, job.c.state.not_in(ENDED))


def without_spot_note(connection: Connection) -> list[JobRow]:
    """Queued jobs of which it is not noted that no spot offer can be had."""
    return select(connection, job.c.state == JobState.QUEUED, job.c.no_spot_since.is_(None))


def select(connection: Connection, *where: sa.ColumnElement[bool]) -> list[JobRow]:
    query = sa.select(job).where(*where).order_by(job.c.created_at, job.c.id)
    return [from_mapping(m) for m in connection.execute(query).mappings()]


def move(
    connection: Connection,
    row: JobRow,
    state: JobState,
    reason: str,
    now: datetime,
    *,
    message: str | None = None,
    **changes: Any,
) -> JobRow:
    """Take a job to another state, if it is still in the state of `row`.

    Raises:
        ConflictError: the move is not allowed, or somebody else moved it meanwhile.
    """
    check_job_move(row.id, row.state, state)
    values = {"state": state, "reason": reason, "message": message, **changes}
    if state.ended:
        values["ended_at"] = now
    if state is JobState.QUEUED:
        values["queued_at"] = now
    result = connection.execute(
        job.update().where(job.c.id == row.id, job.c.state == row.state).values(values)
    )
    if result.rowcount != 1:
        raise ConflictError(f"job {row.id} is no longer {row.state}")
    journal.record(
        connection,
        now,
        "job.moved",
        row.id,
        team_id=row.team_id,
        old=row.state,
        new=state,
        reason=reason,
        message=message,
    )
    moved = get(connection, row.id)
    assert moved is not None
    return moved


def update(connection: Connection, id: str, **values: Any) -> None:
    connection.execute(job.update().where(job.c.id == id).values(values))


def insert_attempt(connection: Connection, row: AttemptRow) -> None:
    values = {name: getattr(row, name) for name in AttemptRow.__dataclass_fields__}
    connection.execute(attempt.insert().values(values))


def attempts(connection: Connection, job_id: str) -> list[AttemptRow]:
    """All attempts of a job, first to last."""
    query = sa.select(attempt).where(attempt.c.job_id == job_id).order_by(attempt.c.number)
    return [AttemptRow(**m) for m in connection.execute(query).mappings()]


def attempts_of_unfinished(connection: Connection) -> dict[str, list[AttemptRow]]:
    """All attempts of each job that has not ended, first to last, by job."""
    query = sa.select(attempt).join(job, job.c.id == attempt.c.job_id)
    query = query.where(job.c.state.not_in(ENDED)).order_by(attempt.c.number)
    found: dict[str, list[AttemptRow]] = {}
    for mapping in connection.execute(query).mappings():
        found.setdefault(mapping["job_id"], []).append(AttemptRow(**mapping))
    return found


def open_attempt(connection: Connection, row: JobRow) -> AttemptRow | None:
    """The current attempt, None when it has ended or none was begun."""
    query = sa.select(attempt).where(
        attempt.c.job_id == row.id, attempt.c.number == row.attempt, attempt.c.state == "open"
    )
    mapping = connection.execute(query).mappings().first()
    return None if mapping is None else AttemptRow(**mapping)


def get_attempt(connection: Connection, id: str) -> AttemptRow | None:
    mapping = connection.execute(sa.select(attempt).where(attempt.c.id == id)).mappings().first()
    return None if mapping is None else AttemptRow(**mapping)


def update_attempt(connection: Connection, id: str, **values: Any) -> None:
    connection.execute(attempt.update().where(attempt.c.id == id).values(values))


def from_mapping(mapping: RowMapping) -> JobRow:
    """The typed row."""
    return JobRow(
        **{
            **mapping,
            "needs": needs_from_json(mapping["needs"]),
            "state": JobState(mapping["state"]),
        }
    )
