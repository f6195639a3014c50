"""Runs one command to its end and keeps a bounded part of what it says."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time

from trainer_agent.launch.environment import command_line, public_environment, working_folder
from trainer_agent.launch.ranks import start_error
from trainer_agent.launch.result import signal_name, split
from trainer_agent.supervise.wire import Command, CommandResult

OUTPUT_LIMIT_BYTES = 256 << 10
_READ_BYTES = 64 << 10
_LOOK_S = 0.1


def run_command(command: Command) -> CommandResult:
    """Run it; never raises. What it leaves running in the background is left alone."""
    environment = public_environment(os.environ)
    line = command_line(command.argv)
    try:
        process = subprocess.Popen(
            line,
            env=environment,
            cwd=working_folder(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        problem = start_error(line[0], environment.get("PATH", ""), error)
        return failed(str(problem), problem.code)
    with process:
        captured = _Captured(process)
        timed_out = _follow(process, captured, time.monotonic() + command.timeout_s)
        captured.read(0.0)
        code, number = split(process.wait())
    trouble = f"ended by {signal_name(number)}" if number is not None else None
    if timed_out:
        trouble = f"killed after its time limit of {command.timeout_s:g} s"
    return CommandResult(
        exit_code=code,
        stdout=captured.text("stdout"),
        stderr=captured.text("stderr"),
        truncated=captured.truncated,
        timed_out=timed_out,
        error=trouble,
    )


def failed(why: str, exit_code: int | None = None) -> CommandResult:
    """The result of a command that gave none."""
    return CommandResult(
        exit_code=exit_code, stdout="", stderr="", truncated=False, timed_out=False, error=why
    )


def _follow(process: subprocess.Popen[bytes], captured: _Captured, end_s: float) -> bool:
    """Read until it has ended; True when it had to be killed for that."""
    while process.poll() is None:
        rest_s = end_s - time.monotonic()
        if rest_s <= 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return True
        if captured.open:
            captured.read(min(rest_s, _LOOK_S))
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(rest_s, _LOOK_S))
    return False


class _Captured:
    """The first 256 KiB of each of its two streams; the rest is read and dropped."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._selector = selectors.DefaultSelector()
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, name)

    @property
    def open(self) -> bool:
        return bool(self._selector.get_map())

    def read(self, wait_s: float) -> None:
        """Take what is there, at most until both streams pause."""
        while events := self._selector.select(wait_s) if self.open else []:
            for key, _ in events:
                data = os.read(key.fd, _READ_BYTES)
                if not data:
                    self._selector.unregister(key.fileobj)
                kept = self._kept[key.data]
                room = OUTPUT_LIMIT_BYTES - len(kept)
                kept += data[:room]
                self.truncated = self.truncated or len(data) > room
            wait_s = 0.0

    def text(self, name: str) -> str:
        return self._kept[name].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
