"""One task of this machine, as its folder and its shim show it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from typing import Literal

from trainer_agent.launch.environment import TASK_MARK
from trainer_agent.launch.folder import Exit, Stop, TaskFolder
from trainer_agent.launch.process import Process, kill, marked
from trainer_agent.launch.ranks import SYSTEM_ERROR
from trainer_agent.launch.spec import TaskSpec
from trainer_agent.launch.start import start_shim
from trainer_agent.supervise.progress import Progress
from trainer_agent.supervise.wire import TaskReport

State = Literal["starting", "running", "exited"]


class Task:
    """Follows a shim that may be older than this agent. Not safe for several threads."""

    def __init__(self, folder: TaskFolder, spec: TaskSpec) -> None:
        self.folder = folder
        self.spec = spec
        self.state: State = "starting"
        self.listed = True
        """Whether the control plane still speaks of it; True until it says otherwise."""
        self.shipped = False
        """Whether it has ended and all of its output was told."""
        self._exit: Exit | None = None
        self._stop: Stop | None = folder.stop()
        self._shim: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._progress = Progress(folder.progress)

    def start(self) -> None:
        """Start its shim, unless one ran already."""
        if self.folder.shim() is not None or self.folder.exit() is not None:
            return
        try:
            self._child = start_shim(self.folder)
        except OSError as error:
            self._end_without_shim(f"the task could not be started: {error.strerror}")

    def stop(self, *, drain: bool, grace_s: float) -> None:
        """Order it to end within `grace_s`. A later order only ever shortens the time."""
        if self.state == "exited":
            return
        kill_at_s = time.monotonic() + grace_s
        known = self._stop
        if known is not None and known.kill_at_s <= kill_at_s + 0.1 and known.drain >= drain:
            return
        earliest_s = kill_at_s if known is None else min(kill_at_s, known.kill_at_s)
        self._stop = Stop(drain or (known is not None and known.drain), earliest_s)
        self.folder.order_stop(self._stop)
        shim = self._shim or self.folder.shim()
        if shim is not None:
            shim.send(signal.SIGTERM)
        elif self._child is not None:
            self._child.send_signal(signal.SIGTERM)

    def refresh(self) -> bool:
        """Look at it again; True when its state changed."""
        before = self.state
        if before != "exited":
            self._progress.read()
            self.state = self._look()
            if self.state == "exited":
                self._progress.read()
                self._reap()
        return self.state != before

    def report(self) -> TaskReport:
        end = self._exit
        return TaskReport(
            id=self.spec.id,
            state=self.state,
            exit_code=end.exit_code if end else None,
            signal=end.signal if end else None,
            drained=end.drained if end else False,
            shipped=self.shipped,
            step=self._progress.step,
            total_steps=self._progress.total_steps,
            checkpoint_step=self._progress.checkpoint_step,
            resumed_step=self._progress.resumed_step,
            message=self._progress.message or (end.message if end else None),
        )

    def remove(self) -> None:
        shutil.rmtree(self.folder.path, ignore_errors=True)

    def _look(self) -> State:
        if self._shim is None:
            self._shim = self.folder.shim()
            if self._shim is not None and self._stop is not None:
                self._shim.send(signal.SIGTERM)  # the order came before it could be told
        if self._shim is None:
            if self._child is not None and self._child.poll() is not None:
                self._shim = self.folder.shim()
                if self._shim is None:
                    self._end_without_shim("the task could not be started")
            return "exited" if self._exit else "starting"
        alive = self._shim.alive()  # before the exit record is looked for: it is written before
        self._exit = self.folder.exit()
        if self._exit is None and not alive:
            self._end_lost()
        if self._exit is not None:
            return "exited"
        return "running" if self.folder.started() else "starting"

    def _end_without_shim(self, what: str) -> None:
        self._record(Exit(SYSTEM_ERROR, message=f"{what}. {self._shims_last_words()}".strip()))

    def _end_lost(self) -> None:
        kill(marked(TASK_MARK, self.spec.id))
        what = "nobody saw it end: the machine went down, or the task's shim was killed"
        self._record(Exit(None, message=f"{what}. {self._shims_last_words()}".strip()))

    def _shims_last_words(self) -> str:
        try:
            return self.folder.shim_errors.read_text(errors="replace").strip()[-500:]
        except OSError:
            return ""

    def _record(self, end: Exit) -> None:
        self.folder.end(end)
        self._exit = end
        self.state = "exited"

    def _reap(self) -> None:
        if self._child is not None:
            self._child.wait()  # it writes its exit record last, so this is a moment at most
            self._child = None
