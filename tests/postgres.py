"""A real PostgreSQL server of the tests' own: on a free port of loopback, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

_USER = "postgres"


class NoPostgresError(Exception):
    """There is no server that this user could run; the message says what to do."""


def find_binaries() -> Path:
    """The folder of `initdb` and `pg_ctl`.

    Raises:
        NoPostgresError: it is not installed, or root has no account to run it as.
    """
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    found = installed[0] if installed else shutil.which("initdb")
    if found is None:
        raise NoPostgresError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(_USER)
        except KeyError:
            raise NoPostgresError(f"root needs the account {_USER} to run PostgreSQL as") from None
    return Path(found).parent


class Postgres:
    """Started by `start`, gone after `stop`."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._folder = Path(tempfile.mkdtemp(prefix="roost-pg-"))
        self._port = _free_port()
        self._made = 0

    def start(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self._folder, _USER, _USER)
        data = self._folder / "data"
        self._run("initdb", "-D", data, "-U", _USER, "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-p {self._port} -h 127.0.0.1 -k {self._folder} -c fsync=off"
        log = self._folder / "log"
        self._run("pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of an empty database."""
        self._made += 1
        name = f"test_{self._made}"
        host = ("-h", "127.0.0.1", "-p", str(self._port), "-U", _USER)
        self._run("createdb", *host, name)
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{name}"

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        # cwd: the server's account may not enter the folder that the tests are run from
        done = subprocess.run(
            command, check=False, cwd="/", capture_output=True, preexec_fn=_as_server_account()
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr.decode()}")


def _as_server_account() -> Callable[[], None] | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam(_USER)

    def become() -> None:
        os.setgid(account.pw_gid)
        os.setgroups([])
        os.setuid(account.pw_uid)

    return become


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
