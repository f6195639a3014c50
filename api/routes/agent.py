"""The machines' agents: protocol 1. What it means is the service's business; here it is bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse
from pydantic import AfterValidator, Field

from api.auth import MachineToken
from api.services import Services
from api.values import AgentMessage, Instant, Measured, Ref, without_nul

router = APIRouter(prefix="/v1/agent", tags=["agent"])

Protocol = Literal[1]
Count = Annotated[int, Field(ge=0, le=2**62)]
Percent = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Loose = Annotated[str, Field(max_length=2_000_000)]
Line = Annotated[str, AfterValidator(without_nul), Field(max_length=8192)]


class RegisterIn(AgentMessage):
    """A machine's first call."""

    protocol: Protocol
    instance_id: Ref
    token_sha256: Sha256
    boot_id: Ref
    agent_version: Annotated[str, Field(max_length=64)]
    hostname: Annotated[str, Field(max_length=255)] = ""
    facts: Measured = Field(default_factory=dict)


class TelemetryIn(AgentMessage):
    """What the machine measures of itself."""

    cpu_percent: Percent | None = None
    memory_bytes: Count | None = None
    gpu_percent: Percent | None = None
    disk_free_bytes: Count | None = None


class ActivityIn(AgentMessage):
    """What people do on it."""

    last_input_age_s: Seconds | None = None


class NoticeIn(AgentMessage):
    """What the provider said about its end."""

    kind: Annotated[str, Field(max_length=32)]
    deadline: Instant | None = None
    source: Annotated[str, Field(max_length=64)] = ""


class TaskIn(AgentMessage):
    """How one task is."""

    id: Ref
    state: Literal["starting", "running", "exited"]
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31)] | None = None
    signal: Annotated[int, Field(ge=0, le=255)] | None = None
    drained: bool = False
    shipped: bool = True
    step: Count | None = None
    total_steps: Count | None = None
    checkpoint_step: Count | None = None
    resumed_step: Count | None = None
    message: Line | None = None


class HeartbeatIn(AgentMessage):
    """How the machine and its tasks are."""

    protocol: Protocol
    instance_id: Ref
    boot_id: Ref
    seq: Count
    uptime_s: Seconds
    telemetry: TelemetryIn = TelemetryIn()
    activity: ActivityIn = ActivityIn()
    notices: list[NoticeIn] = Field(default=[], max_length=32)
    tasks: list[TaskIn] = Field(default=[], max_length=256)


class LogIn(AgentMessage):
    """A part of a task's log, by byte offset."""

    task_id: Ref
    offset: Count
    text: Loose


class ProgressIn(AgentMessage):
    """Progress records, by the byte offset of the first one."""

    task_id: Ref
    offset: Count
    next_offset: Count | None = None
    records: list[Measured] = Field(max_length=10_000)


class CommandResultIn(AgentMessage):
    """What came of a command."""

    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31)] | None = None
    stdout: Loose = ""
    stderr: Loose = ""
    truncated: bool = False
    timed_out: bool = False
    error: Line | None = None


@router.post("/register", summary="A machine's first call")
def register_agent(services: Services, token: MachineToken, body: RegisterIn) -> dict[str, Any]:
    return services.agents.register(token, body.model_dump(mode="json"))


@router.post("/heartbeat", summary="How a machine is; what it shall do")
def beat_agent(services: Services, token: MachineToken, body: HeartbeatIn) -> dict[str, Any]:
    return services.agents.heartbeat(token, body.model_dump(mode="json"))


@router.post("/logs", summary="A part of a task's log")
def append_agent_logs(services: Services, token: MachineToken, body: LogIn) -> dict[str, Any]:
    return services.agents.logs(token, body.model_dump(mode="json"))


@router.post("/progress", summary="Progress records of a task")
def append_agent_progress(
    services: Services, token: MachineToken, body: ProgressIn
) -> dict[str, Any]:
    return services.agents.progress(token, body.model_dump(mode="json"))


@router.post("/commands/{command}", summary="What came of a command")
def finish_agent_command(
    services: Services, token: MachineToken, command: Ref, body: CommandResultIn
) -> dict[str, Any]:
    return services.agents.command_result(token, command, body.model_dump(mode="json"))


@router.get(
    "/wheel",
    response_class=FileResponse,
    summary="The agent's program",
    description="A Python wheel; the ETag is its SHA-256.",
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}},
)
def download_wheel(services: Services) -> FileResponse:
    wheel = services.agents.wheel()
    return FileResponse(
        wheel.path,
        media_type="application/octet-stream",
        filename=wheel.filename,
        headers={"ETag": f'"{wheel.sha256}"'},
    )
