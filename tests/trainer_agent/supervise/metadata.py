"""Metadata services as the clouds have them, over real HTTP on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, str, dict[str, str]]


class Metadata:
    """What all have: an address, a log of requests, and ways to be out of order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken = 0
        """How many requests are answered by 500."""
        self.hanging = threading.Event()
        """Set: requests get no answer until it is cleared."""
        self.changed = threading.Condition()
        self.closing = False

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        raise NotImplementedError

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address while it is served."""
        service = self

        class Handler(_Handler):
            metadata = service

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            self.closing = True
            with self.changed:
                self.changed.notify_all()
            server.shutdown()
            server.server_close()


class Aws(Metadata):
    """IMDSv2: nothing without a session token; 404 where there is nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[str, str] = {}
        self.tokens: list[str] = []

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        if path == "/latest/api/token":
            if method != "PUT" or not headers.get("x-aws-ec2-metadata-token-ttl-seconds"):
                return 400, "", {}
            self.tokens.append(f"session-{len(self.asked)}")
            return 200, self.tokens[-1], {}
        if headers.get("x-aws-ec2-metadata-token") not in self.tokens:
            return 401, "", {}
        item = self.items.get(path.removeprefix("/latest/meta-data/"))
        return (404, "", {}) if item is None else (200, item, {})


class Gce(Metadata):
    """The flag is waited for; nothing without the header."""

    def __init__(self) -> None:
        super().__init__()
        self.preempted = False

    def preempt(self) -> None:
        with self.changed:
            self.preempted = True
            self.changed.notify_all()

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        if headers.get("metadata-flavor") != "Google":
            return 403, "", {}
        if parts.path != "/computeMetadata/v1/instance/preempted":
            return 404, "", {}
        if query.get("wait_for_change") == ["true"]:
            known, limit_s = query.get("last_etag", [""])[0], float(query["timeout_sec"][0])
            with self.changed:
                self.changed.wait_for(lambda: self.closing or self._etag() != known, limit_s)
        flag = "TRUE" if self.preempted else "FALSE"
        return 200, flag, {"ETag": self._etag(), "Metadata-Flavor": "Google"}

    def _etag(self) -> str:
        return "b" if self.preempted else "a"


class Azure(Metadata):
    """Events of a group of machines."""

    def __init__(self, name: str = "vm-1") -> None:
        super().__init__()
        self.name = name
        self.events: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        parts = urlsplit(path)
        if headers.get("metadata") != "true" or "api-version" not in parse_qs(parts.query):
            return 400, "", {}
        if parts.path == "/metadata/instance/compute/name":
            return 200, self.name, {}
        if parts.path == "/metadata/scheduledevents":
            document = {"DocumentIncarnation": len(self.events), "Events": self.events}
            return 200, json.dumps(document), {}
        return 404, "", {}


class _Handler(BaseHTTPRequestHandler):
    metadata: Metadata

    def do_GET(self) -> None:
        self._serve("GET")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def _serve(self, method: str) -> None:
        metadata = self.metadata
        metadata.asked.append(self.path)
        while metadata.hanging.is_set() and not metadata.closing:
            with metadata.changed:
                metadata.changed.wait(0.05)
        headers = {name.lower(): value for name, value in self.headers.items()}
        if metadata.broken:
            metadata.broken -= 1
            status, text, more = 500, "", {}
        else:
            status, text, more = metadata.answer(method, self.path, headers)
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        pass
