"""What a training tells about itself: one JSON object a line, appended to a file others read.

It is a report, not a state: nothing reads it back to decide, and a full disk under it does not stop
the training.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from trainer_agent.clock import Clock

Metric = str | int | float | bool | None


class Progress:
    """Appends records to `path`; does nothing when there is none."""

    def __init__(self, path: Path | None, *, clock: Clock) -> None:
        self.total_steps = 0
        self.last_step = 0
        self._clock = clock
        self._descriptor = None if path is None else _opened(path)
        self._torn = path is not None and _ends_torn(path)

    def record(self, event: str, step: int, **metrics: Metric) -> None:
        """Write one record in a single call, so that a kill leaves a whole line or none."""
        self.last_step = step
        if self._descriptor is None:
            return
        body = {
            "event": event,
            "step": step,
            "total_steps": self.total_steps,
            "at": self._clock.now().isoformat(),
            **metrics,
        }
        line = json.dumps(body, allow_nan=False).encode() + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            self._torn = os.write(self._descriptor, line) != len(line)
        except OSError as error:
            print(f"progress: the {event} record of step {step} is lost: {error}", file=sys.stderr)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        print(f"progress: nothing will be reported: {error}", file=sys.stderr)
        return None


def _ends_torn(path: Path) -> bool:
    """Whether the last line of an earlier writer is incomplete."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
