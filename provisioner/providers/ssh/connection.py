"""One host's ssh connection: opened when it is needed, shared by all calls, opened again when lost.

A call that runs out of time leaves the connection to the others: whether that is dead, its
keepalive finds out.
"""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from provisioner.errors import AuthError
from provisioner.providers.ssh.settings import HostSettings

CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE_S = 10.0
_CLOSING_S = 0.1
"""How long a connection that was lost may take to be known as such."""

Process = asyncssh.SSHClientProcess[bytes]
SshError = asyncssh.Error


class Connection:
    """Starts commands on one host. Belongs to one event loop.

    Raises `AuthError` for keys that do not fit, else what asyncssh and the system raise.
    """

    def __init__(self, host: HostSettings) -> None:
        self._host = host
        self._open: asyncssh.SSHClientConnection | None = None
        self._opening = asyncio.Lock()

    async def start(self, command: str) -> Process:
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

    async def close(self) -> None:
        if self._open is not None:
            self._open.abort()
            await self._open.wait_closed()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        async with self._opening:
            if self._open is None or self._open.is_closed():
                self._open = await self._connect()
            return self._open

    async def _connect(self) -> asyncssh.SSHClientConnection:
        host = self._host
        try:
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
        except asyncssh.HostKeyNotVerifiable:
            raise AuthError(
                f"host {host.name} has another key than `host_key` says.",
                remedy="If it was installed anew, put its new key there; else somebody stands "
                "between.",
            ) from None
        except asyncssh.PermissionDenied:
            raise AuthError(
                f"host {host.name} does not accept the key for {host.user}.",
                remedy="Put the public key into that user's authorized_keys.",
            ) from None

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
