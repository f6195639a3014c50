"""Brings logs and progress home, piece by piece, in a thread of its own.

The files on the machine are the queue: nothing is lost while the control plane is away, and what
was not told before a crash is told after it. Where to go on is the control plane's word.
"""

from __future__ import annotations

import logging
import threading
import time

from trainer_agent.supervise.batch import Batch, log_batch, progress_batch
from trainer_agent.supervise.bell import Bell
from trainer_agent.supervise.client import Backoff, CallError, ControlPlane, Refused, Unavailable
from trainer_agent.supervise.identity import Identity
from trainer_agent.supervise.task import Task
from trainer_agent.supervise.tasks import Tasks

_IDLE_S = 0.5
_REFUSED_PAUSE_S = 30.0
_NOT_US = frozenset({401, 403})
_STREAMS = ("progress", "logs")
_log = logging.getLogger(__name__)


class Shipping:
    """Tells each task's streams in turn; one thread calls `ship`, any other `flush`."""

    def __init__(
        self, control: ControlPlane, identity: Identity, tasks: Tasks, backoff: Backoff, bell: Bell
    ) -> None:
        self._control = control
        self._identity = identity
        self._tasks = tasks
        self._backoff = backoff
        self._bell = bell
        self._offsets: dict[str, dict[str, int]] = {}
        self._paused: dict[tuple[str, str], float] = {}
        self._asked = 0
        self._answered = 0
        self._dry = threading.Condition()

    def ship(self) -> None:
        """One round over all tasks, then a wait when there was nothing; called in a loop."""
        asked = self._asked
        try:
            moved = [self._ship_task(task) for task in self._tasks.all()]
        except CallError as error:
            self._bell.wait(self._backoff.failed(error), urgent_only=True)
            return
        self._backoff.succeeded()
        if not any(moved):
            with self._dry:
                self._answered = asked
                self._dry.notify_all()
            self._bell.wait(_IDLE_S)

    def flush(self, limit_s: float) -> bool:
        """Wait until all that is there now was told, or for `limit_s`; True when it was."""
        with self._dry:
            self._asked += 1
            asked = self._asked
            self._bell.ring(urgent=True)
            return self._dry.wait_for(lambda: self._answered >= asked, limit_s)

    def _ship_task(self, task: Task) -> bool:
        ended = task.state == "exited"  # before the files are read: nothing is added after it
        unlisted = not task.listed
        offsets = self._offsets.setdefault(task.spec.id, _stored(task))
        moved, rest = False, False
        for stream in _STREAMS:
            batch = self._next(task, stream, offsets[stream], ended=ended)
            if batch is None:
                continue
            before = offsets[stream]
            offsets[stream] = self._tell(task, stream, batch)
            moved = moved or offsets[stream] != before
            refused = (task.spec.id, stream) in self._paused
            rest = rest or not ended or (offsets[stream] < batch.end and not refused)
        if moved:
            task.folder.mark_shipped(offsets)
        elif ended and not rest:
            task.shipped = True
            if unlisted:
                self._tasks.forget(task)
                self._offsets.pop(task.spec.id, None)
        return moved

    def _next(self, task: Task, stream: str, offset: int, *, ended: bool) -> Batch | None:
        redact = self._identity.redact
        if stream == "logs":
            return log_batch(task.folder.log, offset, ended=ended, redact=redact)
        return progress_batch(task.folder.progress, offset, ended=ended, redact=redact)

    def _tell(self, task: Task, stream: str, batch: Batch) -> int:
        """Send it; returns where the control plane wants to go on."""
        key = (task.spec.id, stream)
        if time.monotonic() < self._paused.get(key, 0.0):
            return batch.offset
        body = {"task_id": task.spec.id, "offset": batch.offset, **batch.content}
        try:
            reply = self._control.post(f"/v1/agent/{stream}", body, self._identity.token)
        except Refused as error:
            if error.status in _NOT_US:
                raise
            if not task.listed:
                return batch.end  # forgotten on both sides: nobody will ever read it
            _log.warning("task %s: its %s are not taken: %s", task.spec.id, stream, error)
            self._paused[key] = time.monotonic() + _REFUSED_PAUSE_S
            return batch.offset
        self._paused.pop(key, None)
        wanted = reply.get("next_offset")
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
            raise Unavailable(f"/v1/agent/{stream}: the answer has no next_offset")
        return wanted


def _stored(task: Task) -> dict[str, int]:
    known = task.folder.shipped()
    offsets = {}
    for stream in _STREAMS:
        offset = known.get(stream)
        offsets[stream] = offset if isinstance(offset, int) and offset >= 0 else 0
    return offsets
