"""A real control plane on SQLite, served on loopback, with two teams of people."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from api.app import create_app
from provisioner.app import Roost, build
from provisioner.people import Actor
from provisioner.settings import LocalProviderSettings, Settings


@dataclass(frozen=True)
class Live:
    """A control plane that is being served."""

    roost: Roost
    url: str
    admin_token: str

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def actor(self, token: str) -> Actor:
        actor = self.roost.people.authenticate(token)
        assert actor is not None
        return actor


def wait_until(condition: Callable[[], object], deadline_s: float = 20.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.01)


@contextmanager
def live(state: Path) -> Iterator[Live]:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings = Settings(
        state=state,
        public_url=url,
        local=LocalProviderSettings(limits="none", overcommit=8.0),
    )
    roost = build(settings)
    roost.reconciler.refresh_offers()
    token = roost.people.ensure_admin()
    assert token is not None
    server = uvicorn.Server(
        uvicorn.Config(create_app(roost), log_config=None, lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield Live(roost, url, token)
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
        roost.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "state") as running:
        yield running


@pytest.fixture
def admin(served: Live) -> Iterator[httpx.Client]:
    with served.client(served.admin_token) as client:
        yield client


@dataclass(frozen=True)
class Folk:
    """Tokens of people in two teams."""

    vision_lead: str
    vision_member: str
    speech_member: str


@pytest.fixture
def folk(admin: httpx.Client) -> Folk:
    for team in ("vision", "speech"):
        assert admin.post("/v1/teams", json={"name": team}).status_code == 201
    return Folk(
        make_person(admin, "lena", "vision", "lead"),
        make_person(admin, "mina", "vision", "member"),
        make_person(admin, "sam", "speech", "member"),
    )


def make_person(admin: httpx.Client, name: str, team: str, role: str) -> str:
    made = admin.post("/v1/people", json={"name": name, "team": team, "role": role})
    assert made.status_code == 201, made.text
    token = admin.post("/v1/tokens", json={"person": name, "label": "test"})
    assert token.status_code == 201, token.text
    secret: str = token.json()["secret"]
    return secret


def assert_problem(response: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, object] = response.json()
    assert body["type"] == f"urn:roost:problem:{code}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["instance"]
    return body
