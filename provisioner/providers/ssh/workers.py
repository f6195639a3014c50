"""The processes of a host's program that answer calls, one call at a time each.

They stay for the next call, so that most calls start nothing. What is secret goes through their
stdin and is no argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex

from provisioner.errors import ProviderError
from provisioner.providers.local.remote import READY
from provisioner.providers.ssh.connection import Connection, Process, SshError
from provisioner.providers.ssh.program import MISSING, RUN, UNPACK, program
from provisioner.providers.ssh.settings import HostSettings

_AT_ONCE = 8
"""How many calls one host works on; an sshd allows ten sessions unless told otherwise."""
_KEPT = 2
_GREETING_LINES = 1000
"""What a shell's startup files may say before."""


class CutOffError(Exception):
    """A worker ended before it had answered."""


class Progress:
    """How far a call has come."""

    sent = False
    """Whether the host may have got the whole call, before which it does nothing."""


class Workers:
    """Starts them as they are needed. Belongs to one event loop."""

    def __init__(self, host: HostSettings, connection: Connection) -> None:
        self._host = host
        self._connection = connection
        self._idle: list[Process] = []
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def ask(self, call: bytes, progress: Progress) -> bytes:
        """The answer to a call, which is one line. As every call, it may be sent twice.

        Raises:
            CutOffError: none came.
            ProviderError: the program cannot be run there.
        """
        async with self._room:
            if (worker := self._take()) is not None:
                with contextlib.suppress(CutOffError, OSError, SshError):  # it was lost unseen
                    return await self._answer(worker, call, progress)
            worker = await self._started() or await self._installed()
            return await self._answer(worker, call, progress)

    def _take(self) -> Process | None:
        """A worker that waits for calls."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.is_closing() and not worker.stdout.at_eof():
                return worker
            worker.close()
        return None

    async def _answer(self, worker: Process, call: bytes, progress: Progress) -> bytes:
        """Its length in a line, then the answer itself. A worker that gave it is kept."""
        try:
            progress.sent = True
            worker.stdin.write(call + b"\n")
            answer = await worker.stdout.readexactly(int(await worker.stdout.readline()))
        except (asyncio.IncompleteReadError, ValueError) as error:
            worker.close()
            raise CutOffError("the call was cut off") from error
        except BaseException:
            worker.close()
            raise
        if len(self._idle) < _KEPT:
            self._idle.append(worker)
        else:
            worker.close()
        return answer

    async def _installed(self) -> Process:
        unpacking = await self._connection.start(self._command(UNPACK))
        try:
            unpacking.stdin.write(program().packed)
            unpacking.stdin.write_eof()
            ended = await unpacking.wait()
        finally:
            unpacking.close()
        if ended.exit_status != 0:
            raise ProviderError(
                f"host {self._host.name} cannot be given its program: {_said(ended.stderr)}.",
                remedy=self._remedy(),
            )
        worker = await self._started()
        if worker is None:
            raise ProviderError(f"the program on host {self._host.name} has vanished.")
        return worker

    async def _started(self) -> Process | None:
        """A worker that waits for calls; None when its program is not on the host yet."""
        worker = await self._connection.start(self._command(RUN))
        try:
            for _ in range(_GREETING_LINES):
                line = await worker.stdout.readline()
                if line == READY:
                    return worker
                if not line.endswith(b"\n"):
                    break
            worker.stdin.write_eof()
            ended = await worker.wait()
        except BaseException:
            worker.close()
            raise
        worker.close()
        if ended.exit_status == MISSING:
            return None
        if ended.exit_status is None:
            raise CutOffError("its program was cut off")
        raise ProviderError(
            f"host {self._host.name} cannot run its program: {_said(ended.stderr)}.",
            remedy=self._remedy(),
        )

    def _command(self, code: str) -> str:
        words = (self._host.python, "-I", "-S", "-c", code)
        return shlex.join((*words, self._host.folder, program().sha256))

    def _remedy(self) -> str:
        return (
            f"Check that `{self._host.python}` is Python 3.11 or later there and that "
            f"{self._host.folder} can be written."
        )


def _said(stderr: object) -> str:
    """The last line."""
    text = stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"
