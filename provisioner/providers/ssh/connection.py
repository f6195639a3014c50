"""One host's ssh connection: opened when it is needed, shared by all calls, opened again when lost.

Everything runs in one event loop of its own thread; each call has a limit in time. A call that runs
out of it leaves the connection to the others: whether that is dead, its keepalive finds out.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncssh

from provisioner.errors import Ambiguous, AuthError, ProviderError
from provisioner.providers.ssh.settings import HostSettings

T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE_S = 10.0
_CLOSING_S = 0.1
"""How long a connection that was lost may take to be known as such."""
_SESSIONS = 8
"""How many commands run at once on one connection; an sshd allows ten unless told otherwise."""


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result, for any other thread; what is under way when it closes, is cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        if self._thread.is_alive():
            self.run(_cancel_others())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: str


class _Progress:
    """How far a call has come."""

    sent = False
    """Whether the command may have got its whole stdin, before which it does nothing."""


class Connection:
    """Runs commands on one host."""

    def __init__(self, host: HostSettings, loop: Loop) -> None:
        self._host = host
        self._loop = loop
        self._open: asyncssh.SSHClientConnection | None = None
        self._opening = asyncio.Lock()
        self._sessions = asyncio.Semaphore(_SESSIONS)

    def run(self, command: str, given: bytes, timeout_s: float, *, changes: bool) -> Ended:
        """Run a command with something on its stdin.

        Raises:
            AuthError: the host is another than was pinned, or the key is not accepted.
            Ambiguous: no answer came to a command that `changes` something.
            ProviderError: the host cannot be reached.
        """
        name, progress = self._host.name, _Progress()
        try:
            return self._loop.run(self._run(command, given, timeout_s, progress))
        except asyncssh.HostKeyNotVerifiable:
            raise AuthError(
                f"host {name} has another key than `host_key` says.",
                remedy="If it was installed anew, put its new key there; else somebody stands "
                "between.",
            ) from None
        except asyncssh.PermissionDenied:
            raise AuthError(
                f"host {name} does not accept the key for {self._host.user}.",
                remedy="Put the public key into that user's authorized_keys.",
            ) from None
        except (OSError, asyncssh.Error, TimeoutError, CancelledError) as error:
            why = str(error) or "it does not answer in time"
            if progress.sent and changes:
                raise Ambiguous(
                    f"no answer came from host {name}: {why}.",
                    remedy="It may have happened: its state is looked at before it is tried again.",
                ) from error
            raise ProviderError(
                f"host {name} cannot be reached: {why}.", remedy="It is asked again."
            ) from error

    def close(self) -> None:
        self._loop.run(self._close())

    async def _close(self) -> None:
        if self._open is not None:
            self._open.abort()
            await self._open.wait_closed()

    async def _run(
        self, command: str, given: bytes, timeout_s: float, progress: _Progress
    ) -> Ended:
        async with asyncio.timeout(timeout_s), self._sessions:
            process = await self._begin(command)
            try:
                progress.sent = True
                process.stdin.write(given)
                process.stdin.write_eof()
                done = await process.wait()
            finally:
                process.close()
        if done.exit_status is None:
            raise asyncssh.ConnectionLost("the command was cut off")
        said = _bytes(done.stderr).decode("utf-8", "replace")
        return Ended(done.exit_status, _bytes(done.stdout), said)

    async def _begin(self, command: str) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command; a connection that turns out to be lost is opened again, once."""
        connection = await self._connected()
        try:
            return await connection.create_process(command, encoding=None)
        except asyncssh.ChannelOpenError:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.wait_closed(), _CLOSING_S)
            if not connection.is_closed():
                raise
        connection = await self._connected()
        return await connection.create_process(command, encoding=None)

    async def _connected(self) -> asyncssh.SSHClientConnection:
        async with self._opening:
            if self._open is None or self._open.is_closed():
                self._open = await self._connect()
            return self._open

    async def _connect(self) -> asyncssh.SSHClientConnection:
        host = self._host
        return await asyncssh.connect(
            host.address,
            host.port,
            username=host.user,
            client_keys=[self._user_key()],
            known_hosts=([self._pinned_key()], [], []),
            server_host_key_algs=_algorithms(host.host_key),
            config=None,
            agent_path=None,
            connect_timeout=CONNECT_TIMEOUT_S,
            login_timeout=CONNECT_TIMEOUT_S,
            keepalive_interval=_KEEPALIVE_S,
            keepalive_count_max=3,
        )

    def _user_key(self) -> asyncssh.SSHKey:
        try:
            return asyncssh.read_private_key(str(self._host.key_file))
        except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise AuthError(
                f"the key {self._host.key_file} of host {self._host.name} cannot be read: {error}.",
                remedy="Name a private key without a passphrase in `key_file`.",
            ) from error

    def _pinned_key(self) -> asyncssh.SSHKey:
        try:
            return asyncssh.import_public_key(self._host.host_key)
        except asyncssh.KeyImportError as error:
            raise AuthError(
                f"`host_key` of host {self._host.name} is no public key: {error}.",
                remedy="Take it from the host's /etc/ssh/ssh_host_ed25519_key.pub.",
            ) from error


def _algorithms(host_key: str) -> list[str]:
    """Only those of the pinned key, so that the host does not show another one of its keys."""
    kind = host_key.split()[0]
    return ["rsa-sha2-512", "rsa-sha2-256"] if kind == "ssh-rsa" else [kind]


def _bytes(output: object) -> bytes:
    """What came over a channel without an encoding."""
    return output if isinstance(output, bytes) else b""
