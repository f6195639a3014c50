"""A control plane whose machines are in a test cloud of AWS, and stand-ins for their agents."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.clouds.aws.control import AwsCloud
from tests.crash.plane import Plane
from tests.provisioner.world import Agent, agent_of, registration

_GZIP = b"\x1f\x8b"


class AwsPlane(Plane):
    """As `Plane`; while it waits, the machines that run call in."""

    def __init__(
        self, folder: Path, wheels: Path, cloud: AwsCloud, mutant: str | None = None
    ) -> None:
        super().__init__(folder, wheels, mutant, cloud.url)
        self.cloud = cloud
        self._agents: dict[str, Agent] = {}

    def wait(self, found: Callable[[], object], what: str) -> None:
        def after_calls() -> object:
            self.revive()
            self._call_in()
            return found()

        super().wait(after_calls, what)

    def live(self) -> list[dict[str, Any]]:
        """The instances of the cloud that have not ended."""
        return [one for one in self.cloud.instances() if one["state"] != "terminated"]

    def _machines_gone(self) -> bool:
        return True  # the cloud forgets them by itself

    def _call_in(self) -> None:
        running = {one["id"]: one for one in self.live() if one["state"] == "running"}
        for id, told in running.items():
            self._beat(id, told["user_data"])
        for id in self._agents.keys() - running.keys():
            self._agents[id].boot = f"boot-after-{self._agents[id].seq}"
            self._agents[id].tasks.clear()

    def _beat(self, id: str, user_data: str) -> None:
        agent = self._agents.get(id)
        if agent is None:
            agent = agent_of(_script(user_data))
            answer = self._tell("register", agent.bootstrap, registration(agent))
            if answer is None:
                return
            agent.silent = answer.is_error  # its instance has been given up
            self._agents[id] = agent
        if agent.silent:
            return
        answer = self._tell("heartbeat", agent.token, agent.report())
        if answer is not None and answer.is_success:
            agent.obey(answer.json())
            for task in agent.tasks.values():
                task.update(state="exited", exit_code=0)

    def _tell(self, call: str, token: str, body: dict[str, Any]) -> httpx.Response | None:
        """The answer; None while the control plane is down."""
        try:
            return httpx.post(
                f"http://127.0.0.1:{self._port}/v1/agent/{call}",
                json=body,
                headers={"Authorization": f"Bearer {token}"},
                trust_env=False,
                timeout=15,
            )
        except httpx.TransportError:
            return None


def _script(user_data: str) -> str:
    """The script in user data, which may be compressed."""
    raw = base64.b64decode(user_data)
    return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode()
