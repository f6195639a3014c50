"""A machine's folder as the provider sees it: what was bought, how it stands, whether it lives.

Reading needs no lock. Who may write what is said in the docstring of the `machine` package.
"""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from policies.world import PurchaseMode
from provisioner.errors import ProviderError
from provisioner.providers.contract import EndReason, Machine, MachineState
from provisioner.providers.local.machine.files import is_held, read_json, write_json
from provisioner.providers.local.machine.processes import send_exactly

_REQUESTED = {"stop": MachineState.STOPPING, "terminate": MachineState.TERMINATING}


@dataclass(frozen=True, slots=True)
class Spec:
    """What was bought; never changes."""

    launch_id: str
    installation: str
    fingerprint: str
    """Digest of all parameters of the launch, to tell a repeated call from a clashing one."""
    offer_id: str
    instance_type: str
    zone: str
    mode: PurchaseMode
    cpus: float
    memory_gib: float
    gpus: int
    tags: tuple[tuple[str, str], ...]
    volume_id: str | None
    volume_gib: int
    created_at: datetime

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"created_at": self.created_at.isoformat()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Spec:
        parsed = {
            "mode": PurchaseMode(value["mode"]),
            "tags": tuple((str(key), str(text)) for key, text in value["tags"]),
            "created_at": datetime.fromisoformat(value["created_at"]),
        }
        return cls(**value | parsed)


class MachineFolder:
    """One machine's folder; it need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        return self.path.name

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def spec(self) -> Spec | None:
        value = self._read("machine.json")
        return Spec.from_json(value) if value else None

    def state(self) -> dict[str, Any] | None:
        return self._read("state.json")

    def boot(self) -> dict[str, Any] | None:
        return self._read("boot.json")

    def alive(self) -> bool:
        """Whether keeper or init lives. Ask before reading the state: of a dead one it is final."""
        return is_held(self.file("alive"))

    def seen_alive_at(self) -> float | None:
        """Unix time of the last sign of life."""
        try:
            return os.stat(self.file("alive")).st_mtime
        except FileNotFoundError:
            return None

    def requested(self, run: int) -> str | None:
        """What the provider has asked of this run: `stop` or `terminate`."""
        request = self._read("request.json")
        return str(request["action"]) if request and request["run"] == run else None

    def request(self, run: int, action: str) -> None:
        """Ask a living machine; it carries it out by itself."""
        write_json(self.file("request.json"), {"run": run, "action": action})
        self.wake()

    def wake(self) -> None:
        """Make init look into the folder now instead of at its next tick."""
        processes = self._read("init.json")
        if processes:
            init = processes["init"]
            send_exactly(init["pid"], init["start"], signal.SIGUSR1)

    def machine(self) -> Machine | None:
        """The machine as the contract lists it; None when there is none."""
        spec, state = self.spec(), self.state()
        if spec is None or state is None:
            return None
        shown = MachineState(state["state"])
        if shown in (MachineState.PENDING, MachineState.RUNNING):
            shown = _REQUESTED.get(self.requested(state["run"]) or "", shown)
        return Machine(
            id=spec.launch_id,
            launch_id=spec.launch_id,
            state=shown,
            offer_id=spec.offer_id,
            tags=spec.tags,
            created_at=spec.created_at,
            run_started_at=_instant(state["run_started_at"]),
            run_ended_at=_instant(state["run_ended_at"]),
            end_reason=EndReason(state["end_reason"]) if state["end_reason"] else None,
            message=state["message"],
        )

    def gone_at(self) -> datetime | None:
        """When it became `TERMINATED`."""
        state = self.state()
        return _instant(state.get("gone_at")) if state else None

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return read_json(self.file(name))
        except ValueError as error:
            raise ProviderError(
                f"the record {self.file(name)} of a machine is damaged: {error}",
                remedy="Restore the file, or make sure that nothing of the machine runs and move"
                " its folder away.",
            ) from error


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
