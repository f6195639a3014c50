"""Jobs and their attempts as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from policies.world import JobState, Needs, PurchaseMode
from provisioner.jobs.boot import BootView
from provisioner.jobs.boot import boots as boots_of
from provisioner.ledger import cost_of_owner
from provisioner.store import instances, jobs
from provisioner.store.engine import Connection
from provisioner.store.jobs import AttemptRow, JobRow


@dataclass(frozen=True, slots=True)
class AttemptView:
    id: str
    number: int
    state: str
    reason: str | None
    message: str | None
    instance_id: str | None
    mode: PurchaseMode | None
    created_at: datetime
    running_at: datetime | None
    first_step_at: datetime | None
    ended_at: datetime | None
    resumed_step: int | None
    step: int | None
    checkpoint_step: int | None
    notice: bool | None
    """Whether the loss was announced; None when it was not lost."""
    boot: BootView | None
    """Only where one job is looked at, and the attempt has a machine."""


@dataclass(frozen=True, slots=True)
class JobView:
    id: str
    name: str
    team_id: str
    team_name: str
    owner_id: str
    owner_name: str
    state: JobState
    reason: str
    message: str | None
    needs: Needs
    nodes: int
    argv: list[str]
    checkpoint_uri: str
    deadline: datetime | None
    max_runtime_s: float
    step: int | None
    total_steps: int | None
    attempt: int
    attempts: tuple[AttemptView, ...]
    result: Mapping[str, Any] | None
    cost: Decimal | None
    currency: str | None
    labels: Mapping[str, str]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    queued_at: datetime


def job_view(
    connection: Connection,
    row: JobRow,
    names: Mapping[str, str],
    now: datetime,
    *,
    boots: bool = False,
) -> JobView:
    """A job as of now, with all its attempts and what it has cost.

    `boots` adds where the time of each start went, which lists do without.
    """
    attempts = tuple(_attempts(connection, row, boots))
    cost, currency = cost_of_owner(connection, row.id, now)
    return JobView(
        id=row.id,
        name=row.name,
        team_id=row.team_id,
        team_name=names[row.team_id],
        owner_id=row.owner_id,
        owner_name=names[row.owner_id],
        state=row.state,
        reason=row.reason,
        message=row.message,
        needs=row.needs,
        nodes=row.nodes,
        argv=row.task["argv"],
        checkpoint_uri=row.checkpoint_uri,
        deadline=row.deadline,
        max_runtime_s=row.max_runtime_s,
        step=row.step,
        total_steps=row.total_steps,
        attempt=row.attempt,
        attempts=attempts,
        result=row.result,
        cost=cost,
        currency=currency,
        labels=row.labels,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        queued_at=row.queued_at,
    )


def _attempts(connection: Connection, row: JobRow, boots: bool) -> list[AttemptView]:
    machines = {i.attempt: i for i in instances.of_owner(connection, row.id) if i.slot == 0}
    attempts = jobs.attempts(connection, row.id)
    known = boots_of(connection, attempts, machines) if boots else {}
    return [
        _attempt(attempt, machines.get(attempt.number), known.get(attempt.number))
        for attempt in attempts
    ]


def _attempt(
    row: AttemptRow, machine: instances.InstanceRow | None, boot: BootView | None
) -> AttemptView:
    lost = row.state == "interrupted"
    values = {
        name: getattr(row, name)
        for name in AttemptRow.__dataclass_fields__
        if name not in ("job_id",)
    }
    return AttemptView(
        **values,
        instance_id=machine.id if machine else None,
        mode=machine.offer.mode if machine else None,
        notice=(machine is not None and machine.notice_deadline is not None) if lost else None,
        boot=boot,
    )
