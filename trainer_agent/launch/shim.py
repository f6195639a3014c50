"""The process that owns one task: `python -m trainer_agent.launch.shim <task folder>`.

Small and detached, so that an agent may crash or be upgraded while a job runs. It starts the ranks,
writes down what they say, passes a stop on to them, and writes how they ended. It has one thread
and talks to nobody: the task's folder is all that it reads and writes.
"""

from __future__ import annotations

import io
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

from trainer_agent.launch.folder import LEFT, Exit, Stop, TaskFolder
from trainer_agent.launch.output import RankLines, TaskLog
from trainer_agent.launch.process import Process, descendants, kill
from trainer_agent.launch.ranks import StartError, adopt_orphans, start_rank
from trainer_agent.launch.result import RankEnd, result
from trainer_agent.launch.spec import TaskSpec

_KILL_LIMIT_S = 10.0
_LAST_WORDS_S = 1.0
_READ_BYTES = 64 << 10


def main(arguments: list[str]) -> int:
    folder = TaskFolder(Path(arguments[0]))
    inbox = _Signals()
    adopt_orphans()
    spec = folder.spec()
    if spec is None or not folder.claim(Process.current()):
        return 0  # forgotten again, or another shim has it
    Shim(folder, spec, inbox).run()
    return 0


class Shim:
    """One task from its first rank to its exit record."""

    def __init__(self, folder: TaskFolder, spec: TaskSpec, inbox: _Signals) -> None:
        self._folder = folder
        self._spec = spec
        self._inbox = inbox
        self._log = TaskLog(folder.log)
        self._selector = selectors.DefaultSelector()
        self._selector.register(inbox.handle, selectors.EVENT_READ)
        self._ranks: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}
        self._ends: list[RankEnd] = []
        self._stop: Stop | None = folder.stop()
        self._kill_at_s: float | None = None
        self._overdue = False
        self._broken = False

    def run(self) -> None:
        if self._stop is not None:
            message = "stopped before its first step"
            self._folder.end(Exit(LEFT, drained=self._stop.drain, message=message))
            return
        try:
            self._start()
            self._folder.mark_started()
            while self._ranks:
                self._attend()
            failure = None
        except StartError as error:
            failure = error
            self._log.write(f"roost: {error}\n".encode(errors="replace"))
        self._kill_all()
        self._read_last_words()
        self._log.close()
        self._folder.end(self._result(failure))

    def _start(self) -> None:
        self._folder.progress.touch(mode=0o600)
        for local in range(self._spec.nproc):
            process = start_rank(self._spec, local, self._folder.progress, os.environ)
            rank = self._spec.node * self._spec.nproc + local
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            lines = RankLines(self._log, rank) if self._spec.nproc > 1 else None
            self._selector.register(process.stdout, selectors.EVENT_READ, lines)
            self._ranks[process.pid] = (rank, process)

    def _attend(self) -> None:
        wait_s = None if self._kill_at_s is None else self._kill_at_s - time.monotonic()
        self._read(wait_s)
        if self._inbox.take_stop():
            self._pass_stop_on()
        self._reap()
        if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s:
            self._overdue = bool(self._ranks)
            self._kill_all()
        elif self._broken:
            self._kill_all()

    def _pass_stop_on(self) -> None:
        """Tell the ranks, and only them: their loader workers must live until the checkpoint is."""
        first = self._stop is None
        self._stop = self._folder.stop() or Stop(True, time.monotonic() + self._spec.grace_s)
        self._kill_at_s = self._stop.kill_at_s
        if first:
            for _, process in self._ranks.values():
                os.kill(process.pid, signal.SIGTERM)  # not reaped yet, so the pid is still its own

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._ranks:
                rank, process = self._ranks.pop(pid)
                process.returncode = os.waitstatus_to_exitcode(status)
                self._ended(RankEnd(rank, process.returncode))

    def _ended(self, end: RankEnd) -> None:
        self._ends.append(end)
        if self._stop is not None or end.status == 0 or self._kill_at_s is not None:
            return
        if end.status == LEFT:  # by agreement: the others get the time to leave as well
            self._kill_at_s = time.monotonic() + self._spec.grace_s
        else:  # the others wait for it in a collective call: they cannot succeed any more
            self._broken = True

    def _kill_all(self) -> None:
        """SIGKILL everything below, in any session, until nothing is left."""
        give_up_s = time.monotonic() + _KILL_LIMIT_S  # a process in an uninterruptible wait stays
        empty = 0
        while empty < 2 and time.monotonic() < give_up_s:  # one look can miss what changes parents
            self._reap()
            rest = descendants(os.getpid())
            empty = 0 if rest else empty + 1
            kill(rest)
            self._read(0.01 if rest else 0.0)

    def _read(self, wait_s: float | None) -> None:
        for key, _ in self._selector.select(None if wait_s is None else max(0.0, wait_s)):
            if key.fileobj is self._inbox.handle:
                self._inbox.read()
                continue
            try:
                data = os.read(key.fd, _READ_BYTES)
            except BlockingIOError:
                continue
            if data:
                (key.data or self._log).write(data)
            else:
                self._close(key)

    def _read_last_words(self) -> None:
        give_up_s = time.monotonic() + _LAST_WORDS_S
        while len(self._selector.get_map()) > 1 and time.monotonic() < give_up_s:
            self._read(0.05)
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._inbox.handle:
                self._close(key)

    def _close(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        assert isinstance(key.fileobj, io.FileIO)
        key.fileobj.close()
        if key.data:
            key.data.close()

    def _result(self, failure: StartError | None) -> Exit:
        stop = self._folder.stop() or self._stop
        drained = stop is not None and stop.drain
        if failure is not None:
            return Exit(failure.code, drained=drained, message=str(failure))
        return result(self._ends, drained=drained, overdue=self._overdue)


class _Signals:
    """Signals as bytes in a pipe, so that one wait serves them and the ranks' output."""

    def __init__(self) -> None:
        self.handle, write = os.pipe()
        os.set_blocking(self.handle, False)
        os.set_blocking(write, False)
        self._stop = False
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def read(self) -> None:
        arrived = os.read(self.handle, _READ_BYTES)
        self._stop = self._stop or signal.SIGTERM in arrived or signal.SIGINT in arrived

    def take_stop(self) -> bool:
        stop, self._stop = self._stop, False
        return stop


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
