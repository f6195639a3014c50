"""Answers that libcloud's authors recorded of real clouds, served over HTTP on loopback.

libcloud's wheel brings them as files. A test says which answers which call, may change one (ours
must carry our marks), and adds by hand what nobody recorded. What is not foreseen is answered 501,
and every call is kept, so that a test can hold its shape against the cloud's documentation.

    with serving() as cloud:
        cloud.on("GET", "/v2/droplets", recorded("digitalocean_v2/list_nodes.json"))
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import libcloud

FIXTURES = Path(libcloud.__file__).parent / "test" / "compute" / "fixtures"


@dataclass(frozen=True)
class Call:
    """One request. Of an API that names its action in a form, the action is its method."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: Mapping[str, str]


Answer = str | dict[str, Any] | list[Any] | Callable[[Call], Any] | None


@dataclass
class Route:
    method: str
    path: re.Pattern[str]
    answer: Answer
    status: int
    headers: Mapping[str, str]
    count: float


@dataclass
class Recorded:
    """The server's controls. The newest route that fits answers."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)

    def on(
        self,
        method: str,
        path: str,
        answer: Answer = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        count: float = float("inf"),
    ) -> None:
        """`path` is a pattern of the whole path; None is no body, 0 of `status` cuts the line."""
        self.routes.append(Route(method, re.compile(path), answer, status, headers or {}, count))

    def told(self, method: str, path: str = ".*") -> list[Call]:
        """The calls of a method (or action) and path."""
        return [
            call
            for call in self.calls
            if call.method == method and re.fullmatch(path, call.path) is not None
        ]

    def handle(self, call: Call) -> tuple[int, str, Mapping[str, str]]:
        self.calls.append(call)
        for route in reversed(self.routes):
            if (
                route.count > 0
                and route.method == call.method
                and route.path.fullmatch(call.path) is not None
            ):
                route.count -= 1
                answer = route.answer(call) if callable(route.answer) else route.answer
                text = answer if isinstance(answer, str) else json.dumps(answer)
                return route.status, "" if answer is None else text, route.headers
        return 501, f"nothing is recorded of {call.method} {call.path}", {}


def recorded(path: str) -> Any:
    """A recorded answer; JSON as what it says."""
    text = (FIXTURES / path).read_text(encoding="utf-8")
    return json.loads(text) if path.endswith(".json") else text


@contextmanager
def serving() -> Iterator[Recorded]:
    """A cloud that listens and knows nothing yet."""
    cloud = Recorded()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one packet an answer: two wait for each other's acknowledgement

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            call = _call(self, self.rfile.read(length).decode())
            status, text, headers = cloud.handle(call)
            if not status:
                self.close_connection = True
                return
            content = text.encode()
            self.send_response(status)
            kind = "text/xml" if text.startswith("<") else "application/json"
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    cloud.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _call(handler: BaseHTTPRequestHandler, text: str) -> Call:
    url = urlsplit(handler.path)
    headers = {name.lower(): value for name, value in handler.headers.items()}
    body: Any = text
    method = handler.command
    if "x-www-form-urlencoded" in headers.get("content-type", ""):
        body = dict(parse_qsl(text))
        method = body.get("Action", method)
    elif text:
        body = json.loads(text)
    return Call(method, url.path, dict(parse_qsl(url.query)), body, headers)
