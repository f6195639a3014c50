"""Init: the inner process of a machine. It boots it, watches it, and ends it.

It carries out by itself what the provider asks for and what the spot market orders, so that a
machine stops, terminates and is reclaimed in time even while no control plane runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

from provisioner.clock import Clock
from provisioner.providers.local.machine.console import Console
from provisioner.providers.local.machine.files import read_json, write_text
from provisioner.providers.local.machine.processes import (
    adopt_orphans,
    descendants,
    kill_all,
    marked,
    members,
    reap,
    remove_groups,
    send,
    signal_on_parent_death,
)
from provisioner.providers.local.machine.record import (
    STOPPED,
    TERMINATED,
    read_state,
    run_begins,
    run_ends,
    write_state,
)
from provisioner.providers.local.machine.scratch import enter

TICK_S = 0.5
"""How often init looks around while nothing wakes it; the provider wakes it by a signal."""
_ENDING_TICK_S = 0.02
_SIGN_OF_LIFE_S = 1.0


class Init:
    """One run of a machine, from its boot to its end."""

    def __init__(self, folder: str, boot: dict[str, Any], keeper: int, clock: Clock) -> None:
        self._folder = folder
        self._boot = boot
        self._keeper = keeper
        self._clock = clock
        self._shutdown = False
        self._asked: str | None = None
        self._grace_ends = 0.0
        self._terminated: set[int] = set()
        self._script: int | None = None
        self._console = Console(os.path.join(folder, "console.log"), boot["console_bytes"])
        self._noticed = False
        self._seen_alive = 0.0
        self._wake, self._wake_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def begin(self) -> None:
        """Take up the duties of init, put the start on record and start the boot script."""
        adopt_orphans()
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, _woken)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_shutdown)
        signal_on_parent_death(signal.SIGUSR2)
        run_begins(self._folder, self._boot["run"], self._clock.now().isoformat())
        if self._boot["argv"]:
            self._script = self._spawn()

    def live(self) -> None:
        """Return when the run has ended and is on record."""
        while not self._step():
            self._wait()

    def _step(self) -> bool:
        """Look around once; True when the machine has ended."""
        self._console.pump()
        self._collect()
        self._give_sign_of_life()
        if os.getppid() != self._keeper:
            return self._end(TERMINATED, "failed", "its keeper was killed")
        reclaim_at, notice_s = self._reclaim()
        now = self._clock.now()
        if reclaim_at is not None:
            if now >= reclaim_at:
                return self._end(TERMINATED, "reclaimed", "the spot market took it back")
            if notice_s > 0 and now >= reclaim_at - timedelta(seconds=notice_s):
                self._announce(reclaim_at)
        asked = self._request()
        return asked is not None and self._wind_down(asked)

    def _wind_down(self, asked: str) -> bool:
        """Ask all to leave, the boot script first, then what it left behind; kill after a grace."""
        if asked != self._asked:
            self._asked = asked
            ends = time.monotonic() + self._boot["grace_s"][asked]
            self._grace_ends = min(self._grace_ends or ends, ends)
        running = self._processes()
        asked_to_go = {self._script} if self._script in running else running
        for pid in asked_to_go - self._terminated:
            send(pid, signal.SIGTERM)
            self._terminated.add(pid)
        if running and time.monotonic() < self._grace_ends:
            return False
        if asked == "stop":
            return self._end(STOPPED, None, "stopped")
        if asked == "terminate":
            return self._end(TERMINATED, "asked", "terminated")
        if self._boot["can_stop"]:
            return self._end(STOPPED, None, "its host shut down")
        return self._end(TERMINATED, "failed", "its host shut down")

    def _end(self, state: str, reason: str | None, message: str) -> bool:
        if not kill_all(self._processes, give_up_s=5.0)[0]:
            return False  # something cannot be killed now: try again at the next look
        now = self._clock.now().isoformat()
        self._console.pump()
        self._console.close()
        remove_groups(self._boot["cgroups"])
        run_ends(self._folder, self._boot["run"], now, state, reason, message)
        return True

    def _request(self) -> str | None:
        """What the provider or the host wants: `terminate` outranks all, then `stop`."""
        request = read_json(os.path.join(self._folder, "request.json"))
        if request and request["run"] == self._boot["run"]:
            return str(request["action"])
        return "shutdown" if self._shutdown else None

    def _reclaim(self) -> tuple[datetime | None, float]:
        """When the machine is to be taken back, with how much notice; the earliest order wins."""
        orders = [(self._boot["reclaim_at"], self._boot["notice_s"])]
        order = read_json(os.path.join(self._folder, "reclaim.json"))
        if order and order["run"] == self._boot["run"]:
            orders.append((order["at"], order["notice_s"]))
        known = [(datetime.fromisoformat(at), float(notice)) for at, notice in orders if at]
        return min(known) if known else (None, 0.0)

    def _announce(self, at: datetime) -> None:
        if self._noticed:
            return
        folder = os.path.join(self._folder, "metadata", "spot")
        os.makedirs(folder, exist_ok=True)
        notice = json.dumps({"action": "terminate", "time": at.isoformat()})
        write_text(os.path.join(folder, "instance-action"), notice, mode=0o644)
        self._noticed = True

    def _processes(self) -> set[int]:
        reap()
        found = descendants(os.getpid())
        found |= marked(self._boot["marker"]) | members(self._boot["cgroups"])
        return found - {os.getpid(), self._keeper}

    def _collect(self) -> None:
        status = reap().get(self._script or 0)
        if status is None:
            return
        self._script = None
        code = os.waitstatus_to_exitcode(status)
        state = read_state(self._folder)
        if code != 0 and state is not None:
            self._console.pump()
            line = self._console.last_line()
            state["message"] = f"its boot script ended with {code}: {line}"[:500]
            with contextlib.suppress(OSError):  # a full disk costs the message, not the machine
                write_state(self._folder, state)

    def _give_sign_of_life(self) -> None:
        now = time.monotonic()
        if now - self._seen_alive >= _SIGN_OF_LIFE_S:
            self._seen_alive = now
            os.utime(os.path.join(self._folder, "alive"))

    def _wait(self) -> None:
        timeout = _ENDING_TICK_S if self._asked else TICK_S
        reclaim_at, notice_s = self._reclaim()
        if reclaim_at is not None:
            left = (reclaim_at - self._clock.now()).total_seconds()
            for ahead in (left, left - notice_s):
                if 0 < ahead < timeout:
                    timeout = ahead
        watched = [self._wake, *self._console.descriptors()]
        ready, _, _ = select.select(watched, [], [], timeout)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)

    def _spawn(self) -> int:
        output = self._console.open()
        child = os.fork()
        if child == 0:
            try:
                self._become_script(output)
            except BaseException as error:  # noqa: BLE001 (a child must never go on as init)
                os.write(2, f"the machine's boot script cannot be run: {error}\n".encode())
            finally:
                os._exit(127)
        os.close(output)
        return child

    def _become_script(self, output: int) -> None:
        boot = self._boot
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.umask(0o022)
        signal.set_wakeup_fd(-1)
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        for group in boot["cgroups"]:
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(os.getpid()))
        if boot["scratch"] is not None:
            enter(boot["scratch"]["tmp"], boot["scratch"]["shm_bytes"])
        os.chdir(boot["cwd"])
        os.execvpe(boot["argv"][0], boot["argv"], boot["env"])  # noqa: S606

    def _on_shutdown(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._shutdown = True


def _woken(number: int, frame: FrameType | None) -> None:
    """Only wakes the loop: what woke it is in the folder."""
    del number, frame
