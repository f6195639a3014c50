"""What people do while the control plane dies: a desk's life, a job, and a machine nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from policies.world import PurchaseMode
from provisioner.providers.contract import MachineState
from provisioner.store import actions
from provisioner.store.actions import CallKind
from tests.contract.machines import request_for, state_of
from tests.crash.controlplane import FOREVER
from tests.crash.plane import Plane

STEPS = 3
_TASK = f"""
import json, os
with open(os.environ["ROOST_PROGRESS"], "a") as out:
    for step in range(1, {STEPS} + 1):
        out.write(json.dumps({{"event": "step", "step": step, "total_steps": {STEPS}}}) + "\\n")
"""


@dataclass(slots=True)
class Expected:
    """What must have run, no more and no less: by owner its machines' number of runs."""

    runs: dict[str, int] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    strays: set[str] = field(default_factory=set)


Scenario = Callable[[Plane], Expected]


def desk(last: CallKind = CallKind.START) -> Scenario:
    """A desk's life to the end of its home; `last` says whether with a stop, or a start too."""

    def live(plane: Plane) -> Expected:
        return _finish_desk(plane, _make(plane, "workstations", _DESK), last)

    return live


def job(plane: Plane) -> Expected:
    """A job that counts and ends."""
    return _finish_job(plane, submit(plane))


def submit(plane: Plane) -> str:
    """The job's beginning alone."""
    return _make(plane, "jobs", _JOB)


def stray(plane: Plane) -> Expected:
    """A machine with the installation's tag, of which no row speaks."""
    return _finish_stray(plane, _launch_stray(plane))


def everything(plane: Plane) -> Expected:
    """All three at the same time."""
    desk_id, stray_id = _make(plane, "workstations", _DESK), _launch_stray(plane)
    job_id = submit(plane)
    parts = [
        _finish_desk(plane, desk_id, CallKind.START),
        _finish_job(plane, job_id),
        _finish_stray(plane, stray_id),
    ]
    whole = Expected()
    for part in parts:
        whole.runs |= part.runs
        whole.jobs += part.jobs
        whole.strays |= part.strays
    return whole


def settle(plane: Plane) -> None:
    """Wait until nothing runs and nothing is left to do."""

    def quiet() -> bool:
        with plane.roost.store.read() as connection:
            if actions.due(connection, FOREVER):
                return False
        return not plane.get("/v1/instances?live=true")["items"]

    plane.wait(quiet, "nothing is left to do")


_DESK = {"name": "desk", "cpus": 1, "memory_gib": 1, "mode": "on-demand"}
_JOB = {"name": "count", "argv": ["python", "-c", _TASK], "cpus": 1, "memory_gib": 1}


def _make(plane: Plane, kind: str, body: dict[str, Any]) -> str:
    """Ask for it until it is there, once."""
    key = str(body["name"])
    while True:
        answer = plane.ask("POST", f"/v1/{kind}", body, key)
        if answer.status_code == 201:
            return str(answer.json()["id"])
        # It died between the deed and the keeping of the answer: look before asking anew.
        assert answer.status_code == 409, answer.text
        for found in plane.get(f"/v1/{kind}")["items"]:
            if found["name"] == body["name"]:
                return str(found["id"])
        key += "-again"


def _finish_desk(plane: Plane, id: str, last: CallKind) -> Expected:
    _await_phase(plane, id, "ready")
    runs = 1
    if last in (CallKind.STOP, CallKind.START):
        _tell(plane, id, "stop")
        _await_phase(plane, id, "off")
    if last is CallKind.START:
        _tell(plane, id, "start")
        _await_phase(plane, id, "ready")
        runs = 2
    plane.ask("DELETE", f"/v1/workstations/{id}")
    plane.wait(lambda: not plane.get("/v1/workstations")["items"], "the desk's home is gone")
    return Expected(runs={id: runs})


def _tell(plane: Plane, id: str, verb: str) -> None:
    key = f"{id}-{verb}"
    while plane.ask("POST", f"/v1/workstations/{id}/{verb}", None, key).status_code == 409:
        key += "-again"


def _await_phase(plane: Plane, id: str, phase: str) -> None:
    def there() -> bool:
        return bool(plane.get(f"/v1/workstations/{id}")["phase"] == phase)

    plane.wait(there, f"the desk is {phase}")


def _finish_job(plane: Plane, id: str) -> Expected:
    def ended() -> bool:
        return plane.get(f"/v1/jobs/{id}")["state"] in ("succeeded", "failed", "cancelled")

    plane.wait(ended, "the job ends")
    return Expected(runs={id: 1}, jobs=[id])


def _launch_stray(plane: Plane) -> str:
    tags = (("installation", plane.roost.installation.id),)
    request = request_for(plane.provider, "stray-1", mode=PurchaseMode.SPOT, tags=tags)
    return plane.provider.launch(request).id


def _finish_stray(plane: Plane, id: str) -> Expected:
    def collected() -> bool:
        plane.revive()
        return state_of(plane.provider, id) is MachineState.TERMINATED

    plane.wait(collected, "the stray machine is collected")
    return Expected(strays={id})
