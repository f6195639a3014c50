"""Protocol 1 between a machine and the control plane, as values. Unknown fields are ignored.

A reply that lacks what decides over running tasks is no reply: reading it raises `WireError`, so
that a proxy's error page can never look like "nothing should run".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, TypedDict

from trainer_agent.launch.spec import SpecError, TaskSpec, safe_id, seconds, words

PROTOCOL = 1
_HEARTBEAT_S = (0.05, 300.0)


class WireError(ValueError):
    """The control plane's answer is not what the protocol says."""


class Phase(StrEnum):
    RUN = "run"
    DRAIN = "drain"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Command:
    """A command to be run once."""

    id: str
    argv: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Desired:
    """What the control plane wants of this machine, in full."""

    heartbeat_s: float
    phase: Phase
    drain_deadline: datetime | None
    tasks: tuple[TaskSpec, ...]
    commands: tuple[Command, ...]


class Telemetry(TypedDict):
    cpu_percent: float | None
    memory_bytes: int | None
    gpu_percent: float | None
    disk_free_bytes: int | None


class Activity(TypedDict):
    last_input_age_s: float | None


class NoticeReport(TypedDict):
    kind: Literal["reclaim", "rebalance"]
    deadline: str | None
    source: str


class TaskReport(TypedDict):
    id: str
    state: Literal["starting", "running", "exited"]
    exit_code: int | None
    signal: int | None
    drained: bool
    shipped: bool
    step: int | None
    total_steps: int | None
    checkpoint_step: int | None
    resumed_step: int | None
    message: str | None


class CommandResult(TypedDict):
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    error: str | None


def read_desired(reply: dict[str, Any]) -> Desired:
    """Raises `WireError` naming what is wrong."""
    if reply.get("protocol") != PROTOCOL:
        raise WireError(
            f"the control plane speaks protocol {reply.get('protocol')!r}, this agent {PROTOCOL}"
        )
    try:
        return Desired(
            heartbeat_s=read_heartbeat_s(reply),
            phase=Phase(reply.get("phase")),  # type: ignore[arg-type]  # None raises ValueError
            drain_deadline=read_time(reply.get("drain_deadline")),
            tasks=tuple(TaskSpec.from_wire(task) for task in _list(reply, "tasks")),
            commands=tuple(_command(one) for one in _list(reply, "commands")),
        )
    except ValueError as error:
        raise WireError(f"the control plane's heartbeat reply is not understood: {error}") from None


def read_heartbeat_s(reply: dict[str, Any]) -> float:
    least, most = _HEARTBEAT_S
    return min(max(seconds(reply, "heartbeat_s", 1.0), least), most)


def read_time(value: Any) -> datetime | None:
    """An instant, in UTC; raises ValueError. One without an offset is taken as UTC."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"not a time: {value!r}")
    instant = datetime.fromisoformat(value)
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)


def _command(value: Any) -> Command:
    if not isinstance(value, dict):
        raise SpecError("a command must be an object")
    return Command(
        id=safe_id(value.get("id")),
        argv=words(value.get("argv")),
        timeout_s=seconds(value, "timeout_s", 60.0),
    )


def _list(reply: dict[str, Any], name: str) -> list[Any]:
    value = reply.get(name)
    if not isinstance(value, list):
        raise WireError(f"{name} is missing")
    return value
