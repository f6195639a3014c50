"""Processes of this machine, named so that a reused pid is never mistaken for an old one.

A pid alone is reused. A pid with its start time (clock ticks since boot, proc(5)) and the kernel's
boot id is not. Reads /proc; needs no right beyond that of the same user.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process, running or gone."""

    pid: int
    start_ticks: int
    kernel_boot: str

    @classmethod
    def current(cls) -> Process:
        stat = _stat(os.getpid())
        if stat is None:
            raise RuntimeError("/proc is not readable: the agent needs Linux with /proc mounted")
        return cls(os.getpid(), stat.start_ticks, kernel_boot())

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> Process | None:
        try:
            return cls(**record) if record else None
        except TypeError:
            return None

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def alive(self) -> bool:
        """Whether it still runs; one that ended and waits to be reaped does not."""
        stat = _stat(self.pid)
        return (
            stat is not None
            and stat.start_ticks == self.start_ticks
            and stat.state not in "ZX"
            and self.kernel_boot == kernel_boot()
        )

    def send(self, number: signal.Signals) -> bool:
        """Signal it; False when it is gone. The pidfd holds the pid while its age is checked."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    start_ticks: int


def kernel_boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def descendants(pid: int) -> list[int]:
    """The running processes below `pid`, at any depth and in any session."""
    children: dict[int, list[int]] = {}
    for other in _pids():
        stat = _stat(other)
        if stat is not None:
            children.setdefault(stat.parent, []).append(other)
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return [one for one in found if (stat := _stat(one)) is not None and stat.state not in "ZX"]


def marked(variable: str, value: str) -> list[int]:
    """The processes that were started with `variable=value` in their environment."""
    wanted = f"{variable}={value}".encode()
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):  # gone, or another user's
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return _Stat(state=fields[0], parent=int(fields[1]), start_ticks=int(fields[19]))
