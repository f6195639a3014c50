"""One machine for the tests: its folders, its agent as a real process, and what it left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.trainer_agent.supervise.control_plane import BOOTSTRAP_TOKEN, INSTANCE
from trainer_agent.launch.folder import TaskFolder
from trainer_agent.launch.process import descendants, kill

ROOT = Path(__file__).parents[3]


class Machine:
    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.state = folder / "state"
        self.home = folder / "home"
        self.metadata = folder / "metadata"
        self.console = folder / "console"
        for path in (self.state, self.home, self.metadata / "spot"):
            path.mkdir(parents=True)
        self.bootstrap_token = self.state / "bootstrap-token"
        self.bootstrap_token.write_text(BOOTSTRAP_TOKEN + "\n")
        self.agents: list[subprocess.Popen[bytes]] = []

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        with self.console.open("ab") as console:
            agent = subprocess.Popen(
                [sys.executable, "-m", "trainer_agent.supervise"],
                cwd=self.home,
                env=os.environ | self.environment() | env,
                stdout=console,
                stderr=console,
            )
        self.agents.append(agent)
        return agent

    def environment(self) -> dict[str, str]:
        return {
            "ROOST_URL": self.url,
            "ROOST_INSTANCE_ID": INSTANCE,
            "ROOST_STATE_DIR": str(self.state),
            "ROOST_HOME": str(self.home),
            "ROOST_BOOTSTRAP_TOKEN_FILE": str(self.bootstrap_token),
            "ROOST_METADATA": str(self.metadata),
            "ROOST_MACHINE": "marker",
            "PYTHONPATH": str(ROOT),
        }

    def reclaim(self, content: str = '{"action": "terminate"}') -> None:
        draft = self.metadata / "draft"
        draft.write_text(content)
        draft.rename(self.metadata / "spot" / "instance-action")

    def folder(self, task_id: str) -> TaskFolder:
        return TaskFolder(self.state / "tasks" / task_id)

    def script(self, text: str, name: str = "train.py") -> str:
        path = self.home / name
        path.write_text(text)
        return str(path)

    def end(self) -> None:
        for agent in self.agents:
            agent.kill()
            agent.wait()
        for path in (self.state / "tasks").glob("*/shim.json"):
            shim = TaskFolder(path.parent).shim()
            if shim is not None:
                below = descendants(shim.pid) if shim.alive() else []
                shim.send(signal.SIGKILL)
                kill(below)


def task(task_id: str, *argv: str, **fields: Any) -> dict[str, Any]:
    """A task as the control plane lists it."""
    return {
        "id": task_id,
        "job_id": "job_1",
        "attempt": 1,
        "node": 0,
        "nodes": 1,
        "nproc": 1,
        "argv": list(argv),
        "env": {},
        "checkpoint_uri": "file:///checkpoints/job_1",
        "grace_s": 5.0,
        "threads": 1,
        "master_addr": "127.0.0.1",
        "master_port": 29511,
    } | fields
