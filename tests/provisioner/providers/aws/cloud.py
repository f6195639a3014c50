"""EC2 on loopback: moto behind a server that counts calls, and fails or loses them when told to.

What moto lacks and the provider needs is added: it makes one thing of all calls with one client
token, as AWS does, and it answers the calls about prices and quotas.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.ec2 import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import Client

Form = dict[str, Any]
Answer = tuple[int, str, bytes]
TOKENS = ("RunInstances", "CreateVolume", "CreateFleet")
XML, JSON = "text/xml", "application/x-amz-json-1.1"


@dataclass
class Rule:
    """What happens to the next `count` calls of an action, in a region or in all."""

    action: str
    region: str | None = None
    count: int = 1
    answer: Callable[[Form], Answer] | None = None
    lose: bool = False
    """The call takes effect, and its answer is cut off."""
    hold: threading.Event | None = None
    """The call is not answered before that."""


@dataclass(frozen=True)
class Call:
    action: str
    region: str
    form: Form


@dataclass
class Cloud:
    """The server's controls."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    always: dict[str, Callable[[Form], Answer]] = field(default_factory=dict)
    """Answers of the actions that moto does not know."""
    _tokens: dict[tuple[str, ...], tuple[str, Answer]] = field(default_factory=dict)
    _pruned: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _moto: Any = None

    def fail(self, action: str, code: str, *, status: int = 400, count: int = 1) -> None:
        self.rules.append(Rule(action, count=count, answer=lambda _: refusal(code, status)))

    def lose_reply(self, action: str, count: int = 1) -> None:
        self.rules.append(Rule(action, count=count, lose=True))

    def told(self, action: str) -> list[Form]:
        """What the calls of an action asked for."""
        return [call.form for call in self.calls if call.action == action]

    def clear(self) -> None:
        """Forget calls, rules and tokens; what there is stays."""
        self.calls.clear()
        self.rules.clear()
        self.always.clear()
        self._tokens.clear()

    def reset(self) -> None:
        """Begin with an empty account."""
        self._pruned.clear()
        self._client().post("/moto-api/reset")

    def handle(self, path: str, headers: dict[str, str], body: bytes) -> Answer | None:
        """The answer to a request; None cuts the connection."""
        scope = headers.get("Authorization", "").partition("Credential=")[2].split("/")
        region = scope[2] if len(scope) > 2 else ""
        target = headers.get("X-Amz-Target", "").rpartition(".")[2]
        form: Form = json.loads(body) if target else dict(parse_qsl(body.decode()))
        action = target or form.get("Action", "")
        with self._lock:
            self.calls.append(Call(action, region, form))
            rule = self._rule(action, region)
        if rule is not None and rule.hold is not None:
            rule.hold.wait()
        if rule is not None and rule.answer is not None:
            return rule.answer(form)
        answer = self._answered(action, region, form, (path, headers, body))
        return None if rule is not None and rule.lose else answer

    def _rule(self, action: str, region: str) -> Rule | None:
        for rule in self.rules:
            if rule.count > 0 and rule.action == action and rule.region in (None, region):
                rule.count -= 1
                return rule
        return None

    def _answered(self, action: str, region: str, form: Form, request: Any) -> Answer:
        if action in self.always:
            return self.always[action](form)
        with self._lock:
            token = (region, action, form.get("ClientToken", ""))
            parameters = hashlib.sha256(repr(sorted(form.items())).encode()).hexdigest()
            if action in TOKENS and token in self._tokens:
                known, answer = self._tokens[token]
                same = known == parameters
                return answer if same else refusal("IdempotentParameterMismatch")
            self._prune(region)
            path, headers, body = request
            told = self._client().post(path, headers=headers, data=body)
            answer = (told.status_code, told.headers["Content-Type"], told.data)
            if action in TOKENS and told.status_code == 200:
                self._tokens[token] = (parameters, answer)
            return answer

    def _prune(self, region: str) -> None:
        """Take away the snapshots of moto's own images: each question would go through them."""
        if region and region not in self._pruned:
            ec2_backends[ACCOUNT][region].snapshots.clear()
            self._pruned.add(region)

    def _client(self) -> Client:
        if self._moto is None:
            self._moto = Client(DomainDispatcherApplication(create_backend_app))
        return self._moto


def refusal(code: str, status: int = 400) -> Answer:
    """An error as EC2 words it."""
    text = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>as told</Message></Error></Errors>"
        "<RequestID>r</RequestID></Response>"
    )
    return status, XML, text.encode()


def as_json(value: object) -> Answer:
    return 200, JSON, json.dumps(value).encode()


@contextmanager
def serving() -> Iterator[Cloud]:
    """A cloud that listens."""
    cloud = Cloud()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one packet an answer: two wait for each other's acknowledgement

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = cloud.handle(self.path, dict(self.headers), body)
            if answer is None:
                self.close_connection = True
                return
            status, kind, content = answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    cloud.url = f"http://127.0.0.1:{server.server_port}"
    yield cloud
    server.shutdown()
    thread.join()
    server.server_close()
