"""Workstations: a person's desks, and commands that run on them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from api.auth import Asking
from api.idempotency import IdempotentRoute, Once
from api.paging import page
from api.routes.instances import InstanceOut
from api.routes.needs import NeedsIn, NeedsOut
from api.services import Services
from api.values import Instant, Number, PageOut, Paging, Ref, Text, View, Whole
from api.values import Request as Body
from policies.world import Desire
from provisioner.workstations.phase import Phase
from provisioner.workstations.service import NewWorkstation

router = APIRouter(prefix="/v1", tags=["workstations"], route_class=IdempotentRoute)


class HoldKind(StrEnum):
    """Which word of a person outranks the policies."""

    KEEP_RUNNING = "keep-running"
    KEEP_STOPPED = "keep-stopped"


class WorkstationOut(View):
    """A desk: its home volume, and its machine while it has one."""

    id: str
    name: str
    team_id: str
    team_name: str
    owner_id: str
    owner_name: str
    phase: Phase
    reason: str
    desire: Desire
    desire_reason: str
    needs: NeedsOut
    labels: dict[str, str]
    volume_id: str
    instance: InstanceOut | None
    last_activity_at: datetime | None
    hold_kind: str | None
    hold_until: datetime | None
    created_at: datetime
    deleted_at: datetime | None


class NewWorkstationIn(NeedsIn):
    """A desk to be."""

    volume_gib: Annotated[Whole, Field(ge=1, le=65536)] = 10
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "desk", "cpus": 2, "memory_gib": 4}]}
    )


class HoldIn(Body):
    """Keep a desk as it is said here, whatever the policies say."""

    kind: HoldKind
    until: Instant | None = Field(default=None, description="Null: until it is released.")


class ExecIn(Body):
    """A command to run in the desk's home."""

    argv: list[Annotated[Text, Field(max_length=32768)]] = Field(min_length=1, max_length=256)
    timeout_s: Annotated[Number, Field(gt=0, le=3600)] = 60.0
    model_config = ConfigDict(json_schema_extra={"examples": [{"argv": ["ls", "-l"]}]})


class CommandOut(View):
    """A command and, once it has ended, what came of it."""

    id: str
    workstation_id: str
    argv: list[str]
    state: Literal["queued", "done", "failed"]
    exit_code: int | None
    stdout: str | None
    stderr: str | None
    truncated: bool | None
    timed_out: bool | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None


@router.get("/workstations", summary="Desks one may see")
def list_workstations(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    paging: Annotated[Paging, Query()],
) -> PageOut[WorkstationOut]:
    part = services.workstations.list(actor, paging.limit, paging.cursor)
    return page(request, response, part, WorkstationOut)


@router.post("/workstations", status_code=201, summary="Make a desk and start it")
def create_workstation(
    services: Services, actor: Asking, new: NewWorkstationIn, once: Once
) -> WorkstationOut:
    wanted = NewWorkstation(**new.given())
    return WorkstationOut.model_validate(services.workstations.create(actor, wanted, once))


@router.get("/workstations/{workstation}", summary="One desk")
def show_workstation(services: Services, actor: Asking, workstation: Ref) -> WorkstationOut:
    return WorkstationOut.model_validate(services.workstations.get(actor, workstation))


@router.post("/workstations/{workstation}/start", status_code=202, summary="Start a desk")
def start_workstation(services: Services, actor: Asking, workstation: Ref) -> WorkstationOut:
    return WorkstationOut.model_validate(services.workstations.start(actor, workstation))


@router.post("/workstations/{workstation}/stop", status_code=202, summary="Stop a desk")
def stop_workstation(services: Services, actor: Asking, workstation: Ref) -> WorkstationOut:
    return WorkstationOut.model_validate(services.workstations.stop(actor, workstation))


@router.delete(
    "/workstations/{workstation}",
    status_code=202,
    summary="Delete a desk, its machine and its home volume",
)
def delete_workstation(services: Services, actor: Asking, workstation: Ref) -> WorkstationOut:
    return WorkstationOut.model_validate(services.workstations.delete(actor, workstation))


@router.put("/workstations/{workstation}/hold", summary="Keep a desk running or stopped")
def hold_workstation(
    services: Services, actor: Asking, workstation: Ref, hold: HoldIn
) -> WorkstationOut:
    held = services.workstations.hold(actor, workstation, hold.kind, hold.until)
    return WorkstationOut.model_validate(held)


@router.delete("/workstations/{workstation}/hold", summary="Leave a desk to the policies again")
def release_workstation(services: Services, actor: Asking, workstation: Ref) -> WorkstationOut:
    return WorkstationOut.model_validate(services.workstations.release(actor, workstation))


@router.post("/workstations/{workstation}/exec", status_code=202, summary="Run a command on a desk")
def exec_on_workstation(
    services: Services, actor: Asking, workstation: Ref, command: ExecIn, once: Once
) -> CommandOut:
    argv = list(command.argv)
    begun = services.workstations.exec(actor, workstation, argv, command.timeout_s, once)
    return CommandOut.model_validate(begun)


@router.get("/commands/{command}", summary="A command and what came of it")
def show_command(services: Services, actor: Asking, command: Ref) -> CommandOut:
    return CommandOut.model_validate(services.workstations.command(actor, command))
