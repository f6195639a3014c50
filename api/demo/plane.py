"""A control plane of the demo's own: a process on a free port with a folder that goes away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from api.client import Client
from provisioner.clock import SystemClock
from provisioner.errors import ProviderError, StateError
from provisioner.providers.contract import MachineState
from provisioner.providers.local.provider import LocalProvider

_STOP_LIMIT_S = 20.0
_MACHINES_LIMIT_S = 20.0
_CONFIG = """\
tick_s = 0.5
heartbeat_s = 0.5

[local]
limits = "none"
overcommit = 8.0
spot_notice_s = 20.0
"""


class Plane:
    """Started by `start`; `close` leaves no process, no machine and no state folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="roost-demo-"))
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self._token = ""
        self._installation: str | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "control-plane.log"

    def start(self) -> None:
        """Run `roost up` in a session of its own, so that Ctrl-C reaches the demo alone.

        Raises:
            StateError: it did not start; its own words are in the message.
        """
        config = self.folder / "config.toml"
        config.write_text(_CONFIG)
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("ROOST_")
        } | {"XDG_CONFIG_HOME": str(self.folder / "config")}
        command = [sys.executable, "-m", "api.cli", "up", "--json", "--port", "0"]
        command += ["--state", str(self.state), "--config", str(config)]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise StateError(f"The control plane did not start: {self.log.read_text()[-2000:]}")
        started = json.loads(line)
        self.url, self._token = started["url"], started["admin_token"]
        with self.client() as client:
            self._installation = str(client.status()["installation_id"])

    def client(self, token: str | None = None) -> Client:
        """A client of the administrator, or of the holder of `token`."""
        return Client(self.url, token or self._token)

    def close(self) -> list[str]:
        """End everything; the names of machines that would not go, normally none."""
        self._stop()
        left = _end_machines(self.state / "local", self._installation)
        if not left:
            shutil.rmtree(self.folder, ignore_errors=True)
        return left

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _end_machines(root: Path, installation: str | None) -> list[str]:
    """Terminate what still runs, whoever started it and at whatever step it was interrupted."""
    if installation is None:
        return []
    provider = LocalProvider(root, installation, SystemClock())
    end = time.monotonic() + _MACHINES_LIMIT_S
    while True:
        machines = provider.list().machines
        live = [m for m in machines if m.state is not MachineState.TERMINATED]
        if not live or time.monotonic() > end:
            return [machine.id for machine in live]
        for machine in live:
            try:
                provider.terminate(machine.id)
            except ProviderError:
                continue
        time.sleep(0.1)
