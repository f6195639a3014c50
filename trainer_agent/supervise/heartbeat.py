"""The conversation with the control plane: say what is, hear what should be, make it so.

At once when something changed, otherwise as often as the control plane asks. An outage costs
nothing but time: what runs goes on running.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainer_agent.clock import Clock
from trainer_agent.supervise.activity import LastInput
from trainer_agent.supervise.bell import Bell
from trainer_agent.supervise.client import Backoff, CallError, ControlPlane, Unavailable
from trainer_agent.supervise.commands import Commands
from trainer_agent.supervise.identity import Boot, Identity
from trainer_agent.supervise.notices import Notice, Notices
from trainer_agent.supervise.registration import Registration
from trainer_agent.supervise.tasks import Tasks
from trainer_agent.supervise.telemetry import Meter
from trainer_agent.supervise.wire import PROTOCOL, Desired, Phase, WireError, read_desired

_TIMEOUT_S = 5.0
_LAST_TIMEOUT_S = 2.0
_LAST_TRIES = 2
_LEAVING_PAUSE_S = 0.5
_NOTICE_MARGIN_S = 1.0
"""Kept of a notice's time for telling how the tasks ended."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a heartbeat speaks of."""

    identity: Identity
    boot: Boot
    tasks: Tasks
    commands: Commands
    meter: Meter
    last_input: LastInput


class Heartbeat:
    """One thread runs `run`; `stop` and `noticed` may be called from any other."""

    def __init__(
        self,
        control: ControlPlane,
        machine: Machine,
        bell: Bell,
        clock: Clock,
        away: Backoff,
        refused: Backoff,
    ) -> None:
        self._control = control
        self._machine = machine
        self._bell = bell
        self._clock = clock
        self._away = away
        self._refused = refused
        self._stopping = threading.Event()
        self._notices: Notices | None = None
        self._trouble: str | None = None
        self._seq = 0
        self._heartbeat_s = 1.0

    def watch(self, notices: Notices) -> None:
        """Report these notices."""
        self._notices = notices

    @property
    def leaving(self) -> bool:
        """Whether this machine's end is near and every change is urgent."""
        reclaimed = self._notices is not None and self._notices.reclaim() is not None
        return reclaimed or self._stopping.is_set()

    def run(self, registration: Registration) -> bool:
        """Until the machine is told to stop and its tasks have ended; True when that was told.

        Raises `SettingsError`.
        """
        while registration.needed() and not self._stopping.is_set():
            if (wait_s := self._try(registration.register)) is not None:
                self._bell.wait(wait_s, urgent_only=True)
        last_tries = 0
        while last_tries < _LAST_TRIES and self._machine.identity.registered:
            last = self._stopping.is_set() and self._machine.tasks.ended()
            wait_s = self._try(self._beat)
            if wait_s is None and last:
                return True
            last_tries += last
            if wait_s is None:
                self._bell.wait(self._heartbeat_s)
            else:
                self._bell.wait(wait_s, urgent_only=True)
        return False

    def stop(self) -> None:
        """Let all tasks leave, tell it, and end."""
        self._stopping.set()
        self._machine.tasks.drain(None, for_good=True)
        self._bell.ring(urgent=True)

    def noticed(self, notice: Notice) -> None:
        """Act on a notice before anybody was asked: its time is short."""
        _log.warning("notice: %s, deadline %s", notice.kind, notice.deadline or "unknown")
        if notice.kind == "reclaim":
            grace_s = self._until(notice.deadline, _NOTICE_MARGIN_S)
            self._machine.tasks.drain(grace_s, for_good=True)
        self._bell.ring(urgent=True)

    def _try(self, call: Callable[[], None]) -> float | None:
        """None when it worked, else how long to wait before the next time."""
        try:
            call()
        except (CallError, WireError) as error:
            self._complain(str(error))
            backoff = self._away if isinstance(error, Unavailable) else self._refused
            wait_s = backoff.failed(error)
            return min(wait_s, _LEAVING_PAUSE_S) if self._stopping.is_set() else wait_s
        self._away.succeeded()
        self._refused.succeeded()
        self._complain(None)
        return None

    def _beat(self) -> None:
        timeout_s = _LAST_TIMEOUT_S if self._stopping.is_set() else _TIMEOUT_S
        token = self._machine.identity.token
        reply = self._control.post("/v1/agent/heartbeat", self._report(), token, timeout_s)
        self._follow(read_desired(reply))

    def _report(self) -> dict[str, Any]:
        machine = self._machine
        # From the monotonic clock, so that it grows over restarts of the agent within a boot.
        self._seq = max(self._seq + 1, int(time.monotonic() * 1000))
        notices = self._notices.seen() if self._notices else []
        return {
            "protocol": PROTOCOL,
            "instance_id": machine.identity.instance_id,
            "boot_id": machine.boot.id,
            "seq": self._seq,
            "uptime_s": machine.boot.uptime_s(),
            "telemetry": machine.meter.measure(),
            "activity": machine.last_input.measure(),
            "notices": [notice.report() for notice in notices],
            "tasks": machine.tasks.reports(),
        }

    def _follow(self, desired: Desired) -> None:
        self._heartbeat_s = desired.heartbeat_s
        tasks = self._machine.tasks
        draining = desired.phase is not Phase.RUN
        if tasks.follow(desired.tasks, draining=draining):
            self._bell.ring()
        if draining:
            tasks.drain(self._until(desired.drain_deadline, 0.0), for_good=False)
        if desired.phase is Phase.STOP and not self._stopping.is_set():
            _log.info("the control plane stops this machine")
            self.stop()
        self._machine.commands.follow(desired.commands)

    def _until(self, deadline: datetime | None, margin_s: float) -> float | None:
        if deadline is None:
            return None
        return max(0.0, (deadline - self._clock.now()).total_seconds() - margin_s)

    def _complain(self, trouble: str | None) -> None:
        """Log what is wrong once, not at each try, and that it is over."""
        if trouble == self._trouble:
            return
        if trouble is None:
            _log.info("the control plane answers again")
        else:
            _log.warning("the control plane is not reached, trying on: %s", trouble)
        self._trouble = trouble
