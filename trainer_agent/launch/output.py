"""What a task's ranks say, in one bounded file.

The rule: the first 63 MiB are written as they come. From then on the newest 1 MiB is held back and
written when the task ends, below a line that counts what was left out: the beginning says how it
was started, the end says why it failed. The file never shrinks, so byte offsets stay valid.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Protocol

LIMIT_BYTES = 64 << 20
TAIL_BYTES = 1 << 20
_LINE_LIMIT_BYTES = 64 << 10


class Sink(Protocol):
    def write(self, data: bytes) -> None: ...


class TaskLog:
    """The log file of one task; writing never fails, a full disk loses text and no task."""

    def __init__(self, path: Path, limit: int = LIMIT_BYTES, tail: int = TAIL_BYTES) -> None:
        self._file = path.open("ab", buffering=0)
        self._room = limit - tail
        self._tail_limit = tail
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._left_out = 0

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        if head:
            self._append(head)
            self._room -= len(head)
        if rest:
            self._hold(rest)

    def close(self) -> None:
        if self._left_out:
            self._append(b"\n[roost: %d bytes of output left out here]\n" % self._left_out)
        for piece in self._tail:
            self._append(piece)
        self._file.close()

    def _hold(self, data: bytes) -> None:
        self._tail.append(data)
        self._held += len(data)
        while self._held > self._tail_limit:
            oldest = self._tail.popleft()
            excess = min(self._held - self._tail_limit, len(oldest))
            if excess < len(oldest):
                self._tail.appendleft(oldest[excess:])
            self._held -= excess
            self._left_out += excess

    def _append(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            self._left_out += len(data)


class RankLines:
    """Puts a rank's name before each of its lines: several ranks share one log."""

    def __init__(self, sink: Sink, rank: int) -> None:
        self._sink = sink
        self._prefix = b"[rank %d] " % rank
        self._part = b""

    def write(self, data: bytes) -> None:
        *lines, self._part = (self._part + data).split(b"\n")
        self._sink.write(b"".join(self._prefix + line + b"\n" for line in lines))
        if len(self._part) > _LINE_LIMIT_BYTES:
            self.close()

    def close(self) -> None:
        if self._part:
            self._sink.write(self._prefix + self._part + b"\n")
            self._part = b""
