"""A real control plane for end-to-end tests: `roost up` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from api.client import Client
from provisioner.clock import SystemClock
from provisioner.providers.contract import MachineState
from provisioner.providers.local.provider import LocalProvider

T = TypeVar("T")
LIMIT_S = 90.0
CONFIG = """\
tick_s = 0.2
heartbeat_s = 0.2
[local]
limits = "none"
overcommit = 16.0
"""


class ControlPlane:
    """`start` and `kill` it as often as the test likes; `end` leaves nothing behind."""

    def __init__(self, folder: Path, database_url: str | None = None) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.log = folder / "log"
        self.config = folder / "config.toml"
        first = "" if database_url is None else f'database_url = "{database_url}"\n'
        self.config.write_text(first + CONFIG)
        self._clients = contextlib.ExitStack()
        self.process: subprocess.Popen[str] | None = None
        self.token = ""
        self.url = ""
        self.installation = ""

    def start(self) -> Client:
        """Run it and wait until it answers; the port is that of the last time."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
        environment |= {"XDG_CONFIG_HOME": str(self.folder / "cfg")}
        command = [sys.executable, "-m", "api.cli", "up", "--json", "--port", "0"]
        command += ["--state", str(self.state), "--config", str(self.config)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        started = json.loads(line)
        assert "url" in started, started
        self.url, self.token = started["url"], started["admin_token"] or self.token
        client = self.client()
        self.installation = client.status()["installation_id"]
        return client

    def client(self) -> Client:
        return self._clients.enter_context(Client(self.url, self.token))

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._signal(signal.SIGKILL)

    def end(self) -> None:
        """Stop it, and every machine that it made."""
        self._clients.close()
        self._signal(signal.SIGTERM)
        if not self.installation:
            return
        provider = LocalProvider(self.state / "local", self.installation, SystemClock())

        def all_gone() -> bool:
            live = [m for m in provider.list().machines if m.state is not MachineState.TERMINATED]
            for machine in live:
                provider.terminate(machine.id)
            return not live

        wait_until(all_gone, "all machines gone")

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None


def wait_until(found: Callable[[], T | None], what: str) -> T:
    """The first true value of `found`, looked at until a deadline."""
    end = time.monotonic() + LIMIT_S
    pause = time.sleep
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        pause(0.05)
    raise AssertionError(f"this did not happen within {LIMIT_S:.0f} s: {what}")


def ended_job(client: Client, name: str) -> dict[str, Any]:
    """The job once it has ended."""

    def look() -> dict[str, Any] | None:
        job = client.job(name)
        return job if job["state"] in ("succeeded", "failed", "cancelled") else None

    return wait_until(look, f"job {name} ends")
