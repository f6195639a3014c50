"""A real sshd on loopback that stands for a team's own machine."""

from __future__ import annotations

import atexit
import compileall
import contextlib
import io
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from provisioner.providers.ssh.program import program
from provisioner.providers.ssh.settings import HostSettings
from tests.contract.machines import wait_until

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
USER = pwd.getpwuid(os.getuid()).pw_name
PYTHON = sys.executable


@dataclass
class Machine:
    """One host: its sshd, its keys and its folder."""

    name: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def settings(self, **changes: Any) -> HostSettings:
        values: dict[str, Any] = {
            "name": self.name,
            "address": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "key_file": self.folder / "user_key",
            "host_key": (self.folder / "host_key.pub").read_text().strip(),
            "folder": str(self.folder / "roost"),
            "python": PYTHON,
            "overcommit": 64.0,
            "price_per_cpu_hour": "0.02",
        }
        return HostSettings(**(values | changes))

    def bring_program(self) -> None:
        """Have the program there as if the host had been called before."""
        known = self.folder / "roost" / "program" / program().sha256
        known.parent.mkdir(parents=True)
        known.symlink_to(_unpacked())

    def put_on_path(self, name: str, script: str) -> None:
        """A tool of the host's own, such as `nvidia-smi`."""
        tool = self.folder / "bin" / name
        tool.write_text(script)
        tool.chmod(0o755)

    def sessions(self) -> list[int]:
        """The processes that serve connections."""
        told = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in told.stdout.split()]

    def cut(self) -> None:
        """Kill all connections at once."""
        self._kill(self.sessions())

    def vanish(self) -> None:
        """Answer no more; what runs there goes on."""
        sessions = self.sessions()
        self._kill([self.process.pid])
        self.process.wait()
        self._kill(sessions)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """As long as it lasts nothing is answered, and nothing refused."""
        stopped = [self.process.pid, *self.sessions()]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def machine(folder: Path, name: str) -> Iterator[Machine]:
    """A running host of this name."""
    for part in ("bin", "home"):
        (folder / part).mkdir(parents=True)
    for key in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(command, check=True)
    shutil.copyfile(folder / "user_key.pub", folder / "authorized_keys")
    (folder / "authorized_keys").chmod(0o600)
    os.makedirs("/run/sshd", exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"""
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv PATH={folder}/bin:/usr/local/bin:/usr/bin:/bin
"""
    )
    log = (folder / "sshd.log").open("wb")
    process = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log
    )
    try:
        wait_until(lambda: _answers(port))
        yield Machine(name, folder, port, process)
    finally:
        process.terminate()
        process.wait(10)
        log.close()


@cache
def _unpacked() -> Path:
    """The program, compiled once for all hosts of a test run."""
    folder = Path(tempfile.mkdtemp(prefix="roost-program-"))
    atexit.register(shutil.rmtree, folder)
    zipfile.ZipFile(io.BytesIO(program().packed)).extractall(folder)
    compileall.compile_dir(folder, quiet=1)
    return folder


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            return connection.recv(4).startswith(b"SSH")
    except OSError:
        return False
