"""A control plane that may die under its driver, who starts it again and asks once more."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, TypeVar

import httpx

from provisioner.app import Roost, build
from provisioner.providers.contract import MachineState
from provisioner.providers.local.provider import LocalProvider
from tests.contract.machines import processes_with
from tests.crash import controlplane
from tests.crash.controlplane import TOKEN_FILE, Crash

T = TypeVar("T")
LIMIT_S = 60.0
_PAUSE_S = 0.05

# The fork server has read all the modules once; each control plane is a process of its own.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([controlplane.__name__, "provisioner.providers.aws.provider"])


class Plane:
    """One state folder and one port, whichever process serves them just now."""

    def __init__(
        self,
        folder: Path,
        wheels: Path,
        mutant: str | None = None,
        aws_url: str | None = None,
    ) -> None:
        self._aws_url = aws_url
        self._state = folder / "state"
        self._log = folder / "log"
        shutil.copytree(wheels, self._state / "wheels")
        self._port = _free_port()
        self._mutant = mutant
        self._process: ForkServerProcess | None = None
        self._crash: Crash | None = None
        self._http: httpx.Client | None = None
        self.crashes = 0

    def start(self, crash: Crash | None = None) -> None:
        """Start it, armed or not, and look into its folder beside it."""
        self._crash = crash
        arguments = (self._state, self._port, crash, self._mutant, self._aws_url)
        self._process = _processes.Process(target=controlplane.run, args=arguments, daemon=True)
        self._process.start()
        if self._http is None:
            token = self._state / TOKEN_FILE
            wait_until(lambda: token.exists() and token.read_text(), "the token is there")
            self.roost = self._look()
            self._http = httpx.Client(
                base_url=f"http://127.0.0.1:{self._port}",
                headers={"Authorization": f"Bearer {token.read_text()}"},
                trust_env=False,
                timeout=15,
            )

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> httpx.Response:
        """The answer, however often the control plane dies before it has come."""
        assert self._http is not None
        headers = {"Idempotency-Key": key} if key else {}
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                return self._http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                self.revive()
                assert time.monotonic() < deadline, f"no answer to {method} {path}: {self.log()}"
                time.sleep(_PAUSE_S)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def revive(self) -> None:
        """Start it again if it has died, which it may do only where it was told to."""
        assert self._process is not None
        if self._process.exitcode is None:
            return
        assert self._process.exitcode == -signal.SIGKILL, self.log()
        assert self._crash is not None, f"it died unasked: {self.log()}"
        self._process.join()
        self.crashes += 1
        self.start()

    def await_crash(self) -> None:
        """Wait until the armed point was reached, and start anew."""

        def crashed() -> bool:
            self.revive()
            return self.crashes > 0

        self.wait(crashed, f"the control plane dies at {self._crash}")

    @property
    def provider(self) -> LocalProvider:
        """A look at the machines past the control plane."""
        found = self.roost.providers["local"]
        assert isinstance(found, LocalProvider)
        return found

    def processes(self) -> list[int]:
        """Living processes of its machines."""
        return processes_with(f"{self.roost.folder.machines}/machines/")

    def wait(self, found: Callable[[], object], what: str) -> None:
        """Wait for it to come true; failing that, show the control plane's log."""
        try:
            wait_until(found, what)
        except AssertionError as error:
            error.add_note(self.log())
            raise

    def log(self) -> str:
        return self._log.read_text()[-4000:] if self._log.exists() else ""

    def end(self) -> None:
        """Leave no process behind, neither its own nor a machine's."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._http is None:
            return
        self._http.close()
        wait_until(self._machines_gone, "all machines are gone")
        self.roost.close()

    def _machines_gone(self) -> bool:
        live = [m for m in self.provider.list().machines if m.state is not MachineState.TERMINATED]
        for machine in live:
            self.provider.terminate(machine.id)
        return not live and not self.processes()

    def _look(self) -> Roost:
        """The parts again, for reading; nothing of it runs."""
        return build(controlplane.settings(self._state, self._port, self._aws_url))


def wait_until(found: Callable[[], T], what: str, limit_s: float = LIMIT_S) -> T:
    """The first true value of `found`, looked at until a deadline."""
    deadline = time.monotonic() + limit_s
    while not (value := found()):
        assert time.monotonic() < deadline, f"this did not happen within {limit_s:.0f} s: {what}"
        time.sleep(_PAUSE_S)
    return value


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
