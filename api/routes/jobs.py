"""Training jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from api.auth import Asking
from api.idempotency import IdempotentRoute, Once
from api.paging import page
from api.routes.needs import NeedsIn, NeedsOut
from api.services import Services
from api.values import (
    Instant,
    Money,
    Name,
    Number,
    PageOut,
    Paging,
    Ref,
    SmallJson,
    Text,
    View,
    Whole,
)
from api.values import Request as Body
from policies.world import JobState, PurchaseMode
from provisioner.jobs.service import NewJob

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=IdempotentRoute)

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
ConfigKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]


class BootOut(View):
    """Seconds between the decision to launch a machine and the first step, part by part."""

    accept_s: float | None = Field(description="Until the provider accepted the launch.")
    provision_s: float | None = Field(description="From there until the provider ran the machine.")
    boot_s: float | None = Field(description="From there until the agent on it called in.")
    task_s: float | None = Field(description="From there until the job's processes ran.")
    first_step_s: float | None = Field(description="From there until the first step was done.")
    agent_s: dict[str, float] = Field(
        description="Parts of boot_s as the machine measured them: fetch, home, packages."
    )


class AttemptOut(View):
    """One run of a job on one set of machines."""

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
    notice: bool | None = Field(description="Whether a notice came before the machine went.")
    boot: BootOut | None = Field(description="Only where one job is shown.")


class JobOut(View):
    """A training job and how far it is."""

    id: str
    name: str
    team_id: str
    team_name: str
    owner_id: str
    owner_name: str
    state: JobState
    reason: str
    message: str | None
    needs: NeedsOut
    nodes: int
    argv: list[str]
    checkpoint_uri: str
    deadline: datetime | None
    max_runtime_s: float
    step: int | None
    total_steps: int | None
    attempt: int
    attempts: list[AttemptOut]
    result: dict[str, Any] | None
    cost: Money | None
    currency: str | None
    labels: dict[str, str]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    queued_at: datetime


class NewJobIn(NeedsIn):
    """A training job to be: a command, or a recipe with its configuration."""

    argv: list[Annotated[Text, Field(max_length=32768)]] | None = Field(
        default=None, min_length=1, max_length=256
    )
    recipe: Name | None = None
    config: dict[ConfigKey, SmallJson] = Field(default={}, max_length=200)
    nodes: Annotated[Whole, Field(ge=1, le=256)] = 1
    deadline: Instant | None = None
    max_runtime_s: Annotated[Number, Field(gt=0, le=31_536_000)] = Field(
        default=3600.0, description="How long it may run, all attempts together."
    )
    checkpoint_uri: Annotated[Text, Field(min_length=1, max_length=1000)] | None = None
    env: dict[EnvName, Annotated[Text, Field(max_length=32768)]] = Field(default={}, max_length=200)
    threads: Annotated[Whole, Field(ge=1, le=1024)] = 1
    grace_s: Annotated[Number, Field(ge=0, le=3600)] = 30.0
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "digits", "recipe": "image-classification", "mode": "spot"},
                {"name": "train", "argv": ["python", "train.py"], "cpus": 2},
            ],
        }
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.argv is None) == (self.recipe is None):
            raise ValueError("give either argv or recipe")
        return self


class JobsQuery(Paging):
    """Which jobs."""

    state: JobState | None = None


class LogsQuery(Body):
    """From where."""

    cursor: str | None = Field(default=None, min_length=1, max_length=1000)


class LogOut(View):
    """A part of a job's log; `next` continues it, also when more is written later."""

    text: str
    next: str | None
    ended: bool = Field(description="Whether nothing more will come after this part.")


class ProgressOut(View):
    """A part of a job's progress records, oldest first."""

    items: list[dict[str, Any]]
    next: str | None


@router.get("", summary="Jobs one may see, newest first")
def list_jobs(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[JobsQuery, Query()],
) -> PageOut[JobOut]:
    part = services.jobs.list(actor, query.limit, query.cursor, query.state)
    return page(request, response, part, JobOut)


@router.post("", status_code=201, summary="Submit a job")
def submit_job(services: Services, actor: Asking, new: NewJobIn, once: Once) -> JobOut:
    return JobOut.model_validate(services.jobs.submit(actor, NewJob(**new.given()), once))


@router.get("/{job}", summary="One job")
def show_job(services: Services, actor: Asking, job: Ref) -> JobOut:
    return JobOut.model_validate(services.jobs.get(actor, job))


@router.post("/{job}/cancel", status_code=202, summary="Cancel a job")
def cancel_job(services: Services, actor: Asking, job: Ref) -> JobOut:
    return JobOut.model_validate(services.jobs.cancel(actor, job))


@router.get("/{job}/logs", summary="What a job has written")
def show_job_logs(
    services: Services, actor: Asking, job: Ref, query: Annotated[LogsQuery, Query()]
) -> LogOut:
    return LogOut.model_validate(services.jobs.logs(actor, job, query.cursor))


@router.get("/{job}/progress", summary="A job's steps, checkpoints and metrics")
def list_job_progress(
    services: Services, actor: Asking, job: Ref, paging: Annotated[Paging, Query()]
) -> ProgressOut:
    part = services.jobs.progress(actor, job, paging.limit, paging.cursor)
    return ProgressOut(items=list(part.items), next=part.next)
