"""A task's folder: all that is known of a task lives here, so that no process has to.

task.json      what was asked                        written by the agent, first
shim.json      the one process that runs it          written once, by that process
started.json   the ranks are running                 by the shim
stop.json      it must end, until when and why       by the agent
log, progress  what the ranks said                   by the shim, by the ranks
exit.json      what came out                         by the shim, last (by the agent: shim lost)
shipped.json   how much the control plane has        by the agent
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainer_agent.launch.atomic import create_json, read_json, write_json
from trainer_agent.launch.process import Process
from trainer_agent.launch.spec import SpecError, TaskSpec

LEFT = 75
"""EX_TEMPFAIL of sysexits(3): the rank left on notice and can go on elsewhere."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The order to end a task."""

    drain: bool
    """Because the machine goes away, not because the task is no longer wanted."""
    kill_at_s: float
    """`time.monotonic()` at which what still runs is killed."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a task ended; neither code nor signal when nobody saw it end."""

    exit_code: int | None
    signal: int | None = None
    drained: bool = False
    message: str | None = None
    ranks: tuple[dict[str, int | None], ...] = ()
    """`rank`, `exit_code`, `signal` of each rank that was started."""


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """Reads and writes one task's files; each is there whole or not at all."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def progress(self) -> Path:
        return self.path / "progress"

    @property
    def shim_errors(self) -> Path:
        """What the shim itself had to say: empty unless it failed."""
        return self.path / "shim.err"

    def ask(self, spec: TaskSpec) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "task.json", spec.to_wire())

    def spec(self) -> TaskSpec | None:
        try:
            return TaskSpec.from_wire(read_json(self.path / "task.json"))
        except SpecError:
            return None

    def claim(self, process: Process) -> bool:
        """Make `process` the one that runs this task; False when there was one already."""
        return create_json(self.path / "shim.json", process.record())

    def shim(self) -> Process | None:
        return Process.from_record(read_json(self.path / "shim.json"))

    def mark_started(self) -> None:
        write_json(self.path / "started.json", {}, durable=False)

    def started(self) -> bool:
        return (self.path / "started.json").exists()

    def order_stop(self, stop: Stop) -> None:
        write_json(self.path / "stop.json", asdict(stop), durable=False)

    def stop(self) -> Stop | None:
        record = read_json(self.path / "stop.json")
        return Stop(record["drain"], record["kill_at_s"]) if record else None

    def end(self, end: Exit) -> None:
        write_json(self.path / "exit.json", asdict(end))

    def exit(self) -> Exit | None:
        record = read_json(self.path / "exit.json")
        return Exit(**(record | {"ranks": tuple(record["ranks"])})) if record else None

    def mark_shipped(self, offsets: dict[str, int]) -> None:
        write_json(self.path / "shipped.json", offsets, durable=False)

    def shipped(self) -> dict[str, Any]:
        return read_json(self.path / "shipped.json") or {}
