"""Finishing what a dead init left undone.

A machine whose init and keeper were both killed, or whose host went down, still says `running` in
its folder. Whoever looks at it next kills what may be left of it and records its end.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from provisioner.providers.local.host import boot_id
from provisioner.providers.local.machine import record
from provisioner.providers.local.machine.processes import (
    kill_all,
    marked,
    members,
    remove_groups,
)
from provisioner.providers.local.machine_folder import MachineFolder

_KILL_TIMEOUT_S = 5.0


def needs_settling(folder: MachineFolder) -> bool:
    """Whether the folder says something that only a living init could carry out."""
    if folder.alive():
        return False
    state = folder.state()
    if state is None:
        return False
    if state["state"] == record.RUNNING:
        return True
    if state["state"] == record.TERMINATED:
        return (folder.path / "disk").exists()
    if folder.requested(state["run"]) == "terminate":
        return True
    return state["state"] == record.PENDING and (
        folder.requested(state["run"]) == "stop" or _started(folder, state["run"])
    )


def settle(folder: MachineFolder, now: datetime) -> None:
    """Bring the records of a dead machine in line with that. The caller holds the root's lock.

    Leaves things as they are while something of the machine cannot be killed.
    """
    if not needs_settling(folder):
        return
    state = folder.state()
    if state is None:
        return
    path, run = str(folder.path), state["run"]
    if state["state"] == record.TERMINATED:
        record.remove_leftovers(path)
        return
    boot = folder.boot() or {}
    gone, any_left = kill_all(lambda: _left_of(boot), _KILL_TIMEOUT_S)
    if not gone:
        return
    remove_groups(boot.get("cgroups", ()))
    running = state["state"] != record.STOPPED
    ended = _last_seen(folder, now) if running and not any_left else now
    final, reason, message = _outcome(boot, folder.requested(run))
    record.run_ends(path, run, ended.isoformat(), final, reason, message, now.isoformat())


def abandon(folder: MachineFolder, now: datetime) -> None:
    """After a boot that failed: leave nothing of it behind. The caller holds the root's lock."""
    boot = folder.boot() or {}
    kill_all(lambda: _left_of(boot), _KILL_TIMEOUT_S)
    remove_groups(boot.get("cgroups", ()))
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while folder.alive() and time.monotonic() < deadline:
        time.sleep(0.01)  # its keeper is about to leave
    settle(folder, now)


def _left_of(boot: dict[str, Any]) -> set[int]:
    return marked(boot["marker"]) | members(boot["cgroups"]) if boot else set()


def _outcome(boot: dict[str, Any], action: str | None) -> tuple[str, str | None, str]:
    if action == "terminate":
        return record.TERMINATED, "asked", "terminated"
    if action == "stop":
        return record.STOPPED, None, "stopped"
    rebooted = bool(boot) and boot["boot_id"] != boot_id()
    if rebooted and boot["can_stop"]:
        return record.STOPPED, None, "its host went down"
    if rebooted:
        return record.TERMINATED, "failed", "its host went down"
    return record.TERMINATED, "failed", "its processes were killed from outside"


def _started(folder: MachineFolder, run: int) -> bool:
    return record.metered(str(folder.path), run)[0] is not None


def _last_seen(folder: MachineFolder, now: datetime) -> datetime:
    seen = folder.seen_alive_at()
    return now if seen is None else min(now, datetime.fromtimestamp(seen, UTC))
