"""The two records of a machine's runs: its state, and the meter that the bill is made from.

Whoever may write the state (see the package's docstring) writes both through here. The meter comes
first, so that a run which is in no state file is still on the bill; of several ends of one run the
first counts.
"""

from __future__ import annotations

import os
from typing import Any

from provisioner.providers.local.machine.files import (
    append_json,
    read_json,
    read_lines,
    remove_tree,
    write_json,
)

PENDING = "pending"
RUNNING = "running"
STOPPED = "stopped"
TERMINATED = "terminated"


def meter_path(folder: str) -> str:
    root = os.path.dirname(os.path.dirname(folder))
    return os.path.join(root, "meter", os.path.basename(folder) + ".jsonl")


def read_state(folder: str) -> dict[str, Any] | None:
    return read_json(os.path.join(folder, "state.json"))


def write_state(folder: str, state: dict[str, Any]) -> None:
    write_json(os.path.join(folder, "state.json"), state)


def run_pending(folder: str, run: int) -> None:
    """Put down that a run is about to boot."""
    state = {"state": PENDING, "run": run, "end_reason": None, "message": ""}
    write_state(folder, state | {"run_started_at": None, "run_ended_at": None})


def run_begins(folder: str, run: int, at: str) -> None:
    append_json(meter_path(folder), {"event": "start", "run": run, "at": at})
    write_state(
        folder,
        {
            "state": RUNNING,
            "run": run,
            "run_started_at": at,
            "run_ended_at": None,
            "end_reason": None,
            "message": "",
        },
    )


def run_ends(
    folder: str,
    run: int,
    at: str,
    state: str,
    reason: str | None,
    message: str,
    noticed_at: str | None = None,
) -> None:
    """Record the end of a run; a machine that is `TERMINATED` by it loses its disk.

    `noticed_at`, when later than the end, is from when on its tombstone is shown.
    """
    started, ended = metered(folder, run)
    if started is not None and ended is None:
        append_json(meter_path(folder), {"event": "end", "run": run, "at": at, "reason": reason})
        ended = at
    value = read_state(folder) or {}
    value.update(state=state, run=run, run_started_at=started, run_ended_at=ended, message=message)
    value["end_reason"] = reason if state == TERMINATED else None
    if state == TERMINATED:
        value["gone_at"] = noticed_at or at
    write_state(folder, value)
    if state == TERMINATED:
        remove_leftovers(folder)


def metered(folder: str, run: int) -> tuple[str | None, str | None]:
    """Start and end of a run as the meter has them."""
    start = end = None
    for line in read_lines(meter_path(folder)):
        if line.get("run") == run and line["event"] == "start":
            start = start or line["at"]
        elif line.get("run") == run and line["event"] == "end":
            end = end or line["at"]
    return start, end


def remove_leftovers(folder: str) -> None:
    """Remove what an ended machine needs no more: its disk and its script, which holds secrets."""
    for name in ("disk", "user-data", "boot.json", "request.json", "reclaim.json"):
        remove_tree(os.path.join(folder, name))
