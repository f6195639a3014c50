"""How far a task is, read from the records that its ranks append."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_READ_BYTES = 1 << 20
_DEEPEST = 32
_MOST = 2**62


class Progress:
    """Reads on from where it was; a line that is no record is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.step: int | None = None
        self.total_steps: int | None = None
        self.checkpoint_step: int | None = None
        self.resumed_step: int | None = None
        self.message: str | None = None

    def read(self) -> None:
        try:
            if self._path.stat().st_size <= self._offset:
                return
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while data := file.read(_READ_BYTES):
                    whole = data[: data.rfind(b"\n") + 1]
                    if not whole:
                        return
                    for record in records(whole):
                        self._take(record)
                    self._offset += len(whole)
                    file.seek(self._offset)
        except OSError:
            return  # not there yet

    def _take(self, record: dict[str, Any]) -> None:
        event = record.get("event")
        step = _whole(record.get("step"))
        total = _whole(record.get("total_steps"))
        self.total_steps = self.total_steps if total is None else total
        if event == "error":
            self.message = str(record.get("message"))[:2000]
        if step is None:
            return
        if event in ("checkpoint", "left"):
            self.checkpoint_step = step
        if event == "resumed":
            self.resumed_step = step
        if event in ("start", "resumed", "step", "left", "done"):
            self.step = step  # a checkpoint's step is of the past: it was written meanwhile


def records(lines: bytes) -> list[dict[str, Any]]:
    """The JSON objects among `lines`, but for those nested too deep for any reader."""
    found = []
    for line in lines.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and not _deeper(value, _DEEPEST):
            found.append(value)
    return found


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(each, levels - 1) for each in inner)


def _whole(value: Any) -> int | None:
    """A count, if it is one that the protocol can say; a program may write anything."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if known else None
