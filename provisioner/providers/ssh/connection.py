"""One host's ssh connection: opened when it is needed, shared by all calls, opened again when lost.

Everything runs in one event loop of its own thread; each call has a limit in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncssh

from provisioner.errors import Ambiguous, AuthError, ProviderError
from provisioner.providers.ssh.settings import HostSettings

T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE_S = 10.0


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Its result; `TimeoutError` when it takes longer, and then it is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            future.cancel()
            raise TimeoutError from None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: str


class Connection:
    """Runs commands on one host."""

    def __init__(self, host: HostSettings, loop: Loop) -> None:
        self._host = host
        self._loop = loop
        self._open: asyncssh.SSHClientConnection | None = None
        self._opening: asyncio.Lock | None = None

    def run(self, command: str, given: bytes, timeout_s: float, *, changes: bool) -> Ended:
        """Run a command with something on its stdin.

        Raises:
            AuthError: the host is another than was pinned, or the key is not accepted.
            Ambiguous: the connection was lost after a command that `changes` something was sent.
            ProviderError: the host cannot be reached.
        """
        sent: list[bool] = []
        try:
            return self._loop.run(self._run(command, given, sent), timeout_s)
        except asyncssh.HostKeyNotVerifiable:
            raise AuthError(
                f"host {self._host.name} has another key than `host_key` says.",
                remedy="If it was installed anew, put its new key there; else somebody stands "
                "between.",
            ) from None
        except asyncssh.PermissionDenied:
            raise AuthError(
                f"host {self._host.name} does not accept the key for {self._host.user}.",
                remedy="Put the public key into that user's authorized_keys.",
            ) from None
        except (OSError, asyncssh.Error, TimeoutError) as error:
            self._open = None
            why = str(error) or type(error).__name__
            if sent and changes:
                raise Ambiguous(
                    f"the connection to host {self._host.name} was lost: {why}",
                    remedy="It may have happened: its state is looked at before it is tried again.",
                ) from error
            raise ProviderError(
                f"host {self._host.name} cannot be reached: {why}", remedy="It is asked again."
            ) from error

    def close(self) -> None:
        if self._open is not None:
            self._open.abort()
            self._open = None

    async def _run(self, command: str, given: bytes, sent: list[bool]) -> Ended:
        try:
            process = await (await self._connected()).create_process(command, encoding=None)
        except asyncssh.ChannelOpenError:  # it was lost unseen: nothing has been sent
            self._open = None
            process = await (await self._connected()).create_process(command, encoding=None)
        sent.append(True)
        process.stdin.write(given)
        process.stdin.write_eof()
        done = await process.wait()
        if done.exit_status is None:
            raise asyncssh.ConnectionLost("the command was cut off")
        said = _bytes(done.stderr).decode("utf-8", "replace")
        return Ended(done.exit_status, _bytes(done.stdout), said)

    async def _connected(self) -> asyncssh.SSHClientConnection:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._open is None or self._open.is_closed():
                self._open = await self._connect()
            return self._open

    async def _connect(self) -> asyncssh.SSHClientConnection:
        host = self._host
        try:
            key = asyncssh.read_private_key(str(host.key_file))
        except (OSError, asyncssh.KeyImportError) as error:
            raise AuthError(
                f"the key {host.key_file} of host {host.name} cannot be read: {error}",
                remedy="Name a private key without a passphrase in `key_file`.",
            ) from error
        pinned = asyncssh.import_public_key(host.host_key)
        return await asyncssh.connect(
            host.address,
            host.port,
            username=host.user,
            client_keys=[key],
            known_hosts=([pinned], [], []),
            server_host_key_algs=_algorithms(host.host_key),
            config=None,
            agent_path=None,
            connect_timeout=CONNECT_TIMEOUT_S,
            login_timeout=CONNECT_TIMEOUT_S,
            keepalive_interval=_KEEPALIVE_S,
            keepalive_count_max=3,
        )


def _algorithms(host_key: str) -> list[str]:
    """Only those of the pinned key, so that the host does not show another one of its keys."""
    kind = host_key.split()[0]
    return ["rsa-sha2-512", "rsa-sha2-256"] if kind == "ssh-rsa" else [kind]


def _bytes(output: object) -> bytes:
    with contextlib.suppress(TypeError):
        return bytes(output)  # type: ignore[call-overload, no-any-return]
    return b""
