"""The keeper: the outer process of a machine. It starts init and outlives it.

When init is killed, all orphans of the machine come to the keeper, which kills them and records the
end. When the keeper is killed, init does the same. The program that runs `main` ends as soon as the
machine is up (exit 0) or cannot come up (exit 1, the cause on stderr): it is what the provider
waits for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
import traceback
from typing import Any

from provisioner.clock import SystemClock
from provisioner.providers.local.machine.files import read_json, write_json
from provisioner.providers.local.machine.init import Init
from provisioner.providers.local.machine.processes import (
    adopt_orphans,
    descendants,
    kill_all,
    marked,
    members,
    reap,
    remove_groups,
    start_time,
)
from provisioner.providers.local.machine.record import (
    PENDING,
    TERMINATED,
    metered,
    read_state,
    run_ends,
)

_READY = b"ready"
_LOCK_WAIT_S = 10.0


def main() -> int:
    """Bring up the machine whose folder is the only argument; see the module's docstring."""
    folder = os.path.abspath(sys.argv[1])
    answer, ready = os.pipe()
    if os.fork() == 0:
        os.close(answer)
        os._exit(_guarded(folder, ready))
    os.close(ready)
    with open(answer, "rb") as pipe:
        said = pipe.read()
    if said == _READY:
        return 0
    sys.stderr.write(said.decode(errors="replace") or "the machine's init died at once")
    return 1


def _guarded(folder: str, ready: int) -> int:
    try:
        return keep(folder, ready)
    except Exception as error:  # noqa: BLE001 (the last place that can say what went wrong)
        traceback.print_exc()
        with contextlib.suppress(OSError):
            os.write(ready, f"{type(error).__name__}: {error}".encode())
        return 1


def keep(folder: str, ready: int) -> int:
    os.setsid()
    _detach(os.path.join(folder, "keeper.log"))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    _lock(os.path.join(folder, "alive"))
    boot = read_json(os.path.join(folder, "boot.json"))
    state = read_state(folder)
    if boot is None or state is None or (state["state"], state["run"]) != (PENDING, boot["run"]):
        raise RuntimeError("this run was called off or is over")
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        os._exit(_guarded_init(folder, boot, keeper, ready))
    os.close(ready)
    while os.wait()[0] != child:
        pass
    _finish(folder, boot)
    return 0


def _guarded_init(folder: str, boot: dict[str, Any], keeper: int, ready: int) -> int:
    try:
        _init(folder, boot, keeper, ready)
    except Exception as error:  # noqa: BLE001 (the keeper then finishes what init could not)
        traceback.print_exc()
        with contextlib.suppress(OSError):
            os.write(ready, f"{type(error).__name__}: {error}".encode())
        return 1
    return 0


def _init(folder: str, boot: dict[str, Any], keeper: int, ready: int) -> None:
    init = Init(folder, boot, keeper, SystemClock())
    write_json(
        os.path.join(folder, "init.json"),
        {
            "boot_id": boot["boot_id"],
            "run": boot["run"],
            "init": {"pid": os.getpid(), "start": start_time(os.getpid())},
            "keeper": {"pid": keeper, "start": start_time(keeper)},
        },
    )
    init.begin()
    _say_ready(ready)
    init.live()


def _finish(folder: str, boot: dict[str, Any]) -> None:
    """After init's end: make sure that nothing is left and that the end is on record."""
    me = os.getpid()

    def left() -> set[int]:
        reap()
        return (descendants(me) | marked(boot["marker"]) | members(boot["cgroups"])) - {me}

    while not kill_all(left, give_up_s=60.0)[0]:
        time.sleep(1.0)
    started, ended = metered(folder, boot["run"])
    if started is not None and ended is None:
        now = SystemClock().now().isoformat()
        run_ends(folder, boot["run"], now, TERMINATED, "failed", "its init was killed")
    remove_groups(boot["cgroups"])


def _detach(log: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)


def _lock(path: str) -> None:
    """Hold the lock of `alive` for as long as this process and its init live."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Held for an instant by a look at whether the machine lives, or by the keeper of the
            # run before, which is about to leave.
            if time.monotonic() > deadline:
                raise RuntimeError("another keeper of this machine does not leave") from None
            time.sleep(0.01)
        else:
            os.utime(path)
            return


def _say_ready(pipe: int) -> None:
    os.write(pipe, _READY)
    os.close(pipe)
