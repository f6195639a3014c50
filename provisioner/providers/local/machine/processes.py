"""Finding and killing every process of a machine, those that tried to get away too.

A machine's processes are the descendants of its init (it is a subreaper, so one that is orphaned
by a double fork comes back to it), those in its control groups, and those that carry its marker in
their environment. Standard library only; Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

MARKER = "ROOST_MACHINE"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_S = 0.005


def adopt_orphans() -> None:
    """Make this process the parent of all orphans below it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(number: int) -> None:
    """Have this process sent a signal when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, number)


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when it does not run."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def send_exactly(pid: int, started: int, number: int) -> bool:
    """Signal the very process that began then; False when it is gone, its id reused or not."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_time(pid) != started:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def descendants(root: int) -> set[int]:
    """The living processes below `root`, without it."""
    children: dict[int, list[int]] = {}
    living: set[int] = set()
    for pid in _pids():
        fields = _stat(pid)
        if not fields:
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        # The first thread of a process may have left while others go on: a zombie with threads.
        if fields[0] not in "ZX" or int(fields[17]) > 1:
            living.add(pid)
    below: set[int] = set()
    ahead = [root]
    while ahead:
        for child in children.get(ahead.pop(), ()):
            if child not in below:
                below.add(child)
                ahead.append(child)
    return below & living


def marked(marker: str) -> set[int]:
    """The living processes of this user that were started with `MARKER=marker`."""
    entry = f"{MARKER}={marker}".encode()
    found = set()
    for pid in _pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        if entry in environment.split(b"\0"):
            found.add(pid)
    return found


def members(groups: Iterable[str]) -> set[int]:
    """The processes in control groups and in the groups below them."""
    found: set[int] = set()
    for group in groups:
        for folder, _, _ in os.walk(group):
            with (
                contextlib.suppress(OSError),
                open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file,
            ):
                found.update(int(line) for line in file if line.strip() != "0")
    return found


def kill_all(find: Callable[[], set[int]], give_up_s: float) -> tuple[bool, bool]:
    """Kill all that `find` finds until it finds none.

    Everything is stopped first, again and again until nobody new turns up: a stopped process cannot
    fork, so none slips through between the looking and the killing. Returns whether none is left
    (False: some still lived after `give_up_s`) and whether any was there.
    """
    deadline = time.monotonic() + give_up_s
    any_found = False
    while True:
        stopped: set[int] = set()
        while fresh := find() - stopped:
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            stopped |= fresh
        if not stopped:
            return True, any_found
        any_found = True
        for pid in stopped:
            send(pid, signal.SIGKILL)
        reap()
        if time.monotonic() > deadline:
            return False, True
        time.sleep(_PAUSE_S)


def send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def reap() -> dict[int, int]:
    """Collect the ended children of this process: wait status by process id."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended


def remove_groups(groups: Iterable[str]) -> None:
    """Remove empty control groups and those below them; the kernel may need a moment for it."""
    for group in groups:
        for _ in range(100):
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            if not os.path.isdir(group):
                break
            time.sleep(_PAUSE_S * 2)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/pid/stat after the name: 0 is the state, 1 the parent, 19 the start."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")
