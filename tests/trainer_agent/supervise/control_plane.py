"""A control plane that says what a test tells it to, over real HTTP on the loopback."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BOOTSTRAP_TOKEN = "boot_0123456789abcdef0123456789abcdef"
INSTANCE = "ins_1"


def wait_until(condition: Callable[[], Any], what: str, limit_s: float = 20.0) -> Any:
    """Wait for a condition; its first true value is returned."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


class ControlPlane:
    """Scripted desired state in, everything that the agent said out."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.port = 0
        self.phase = "run"
        self.drain_deadline: str | None = None
        self.tasks: list[dict[str, Any]] = []
        self.commands: list[dict[str, Any]] = []
        self.lists_on = False
        """Whether a command stays listed although its result was accepted."""
        self.wheel: bytes = b""
        self.cuts_off = 0
        """How many downloads of the wheel end half way."""
        self.tls: ssl.SSLContext | None = None
        self.token_sha256: str | None = None
        self.heartbeats: list[dict[str, Any]] = []
        self.heard_at: list[float] = []
        self.registrations: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.logs: dict[str, bytearray] = {}
        self.progress: dict[str, list[dict[str, Any]]] = {}
        self.progress_offsets: dict[str, int] = {}
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.tokens: set[str] = set()
        self.extra: dict[str, Any] = {}
        self.drops: Callable[[str], bool] = lambda path: False
        self.status: Callable[[str], tuple[int, dict[str, str]] | None] = lambda path: None
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def open(self) -> None:
        plane = self

        class Handler(_Handler):
            control = plane

        self._server = _Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextmanager
    def away(self) -> Iterator[None]:
        self.close()
        yield
        self.open()

    def task(self, task_id: str) -> dict[str, Any] | None:
        """The last report of a task."""
        with self.lock:
            tasks = self.heartbeats[-1]["tasks"] if self.heartbeats else []
        return next((task for task in tasks if task["id"] == task_id), None)

    def exited(self, task_id: str) -> dict[str, Any] | None:
        task = self.task(task_id)
        return task if task and task["state"] == "exited" else None

    def running(self, task_id: str) -> bool:
        task = self.task(task_id)
        return bool(task and task["state"] == "running")

    def log(self, task_id: str) -> str:
        with self.lock:
            return self.logs.get(task_id, bytearray()).decode()

    def answer(self, path: str, body: dict[str, Any], token: str) -> tuple[int, dict[str, Any]]:
        if path == "/v1/agent/register":
            if token != BOOTSTRAP_TOKEN or self.token_sha256 not in (None, body["token_sha256"]):
                return 401, {"title": "unknown bootstrap token"}
            self.token_sha256 = body["token_sha256"]
            self.registrations.append(body)
            reply = {"protocol": 1, "instance_id": INSTANCE, "heartbeat_s": 0.1}
            return 201, reply | self.extra
        if hashlib.sha256(token.encode()).hexdigest() != self.token_sha256:
            return 401, {"title": "unknown token"}
        self.tokens.add(token)
        if path == "/v1/agent/heartbeat":
            return self._heartbeat(body)
        if path == "/v1/agent/logs":
            return self._take_log(body)
        if path == "/v1/agent/progress":
            return self._take_progress(body)
        command = path.rpartition("/")[2]
        self.results.setdefault(command, []).append(body)
        if not self.lists_on:
            self.commands = [one for one in self.commands if one["id"] != command]
        return 200, {}

    def _heartbeat(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.heartbeats.append(body)
        self.heard_at.append(time.monotonic())
        reply = {
            "protocol": 1,
            "heartbeat_s": 0.1,
            "phase": self.phase,
            "drain_deadline": self.drain_deadline,
            "tasks": self.tasks,
            "commands": self.commands,
        }
        return 200, reply | self.extra

    def _take_log(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        log = self.logs.setdefault(body["task_id"], bytearray())
        if body["offset"] == len(log):
            log += body["text"].encode()
        return 200, {"next_offset": len(log)}

    def _take_progress(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        task = body["task_id"]
        if body["offset"] == self.progress_offsets.setdefault(task, 0):
            self.progress.setdefault(task, []).extend(body["records"])
            self.progress_offsets[task] = body["next_offset"]
        return 200, {"next_offset": self.progress_offsets[task]}


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A killed agent hangs up in the middle of things."""


class _Handler(BaseHTTPRequestHandler):
    control: ControlPlane

    def do_GET(self) -> None:
        self.control.paths.append(self.path)
        self._send(200, self.control.wheel, {"Content-Type": "application/zip"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = self.headers["Authorization"].removeprefix("Bearer ")
        control = self.control
        with control.lock:
            control.paths.append(self.path)
            refusal = control.status(self.path)
            if refusal is not None:
                self._send(refusal[0], b"{}", refusal[1])
                return
            status, reply = control.answer(self.path, body, token)
            if control.drops(self.path):
                self.close_connection = True
                return
            content = json.dumps(reply).encode()
        self._send(status, content, {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET" and self.control.cuts_off:
            self.control.cuts_off -= 1
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass
