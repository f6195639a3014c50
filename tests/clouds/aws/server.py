"""The test cloud as a process: AWS's APIs on one port of the loopback address, and its controls.

    python -m tests.clouds.aws.server

prints its URL once it listens, and ends when its standard input is closed. Everything under `/_f/`
is a control, and `/_imds/<instance>/latest/...` is what that instance reads of itself.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STRICT = (
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION",
    "MOTO_ENABLE_KEYPAIR_VALIDATION",
    "MOTO_ENABLE_AMI_VALIDATION",
)
os.environ.update(dict.fromkeys(STRICT, "1"))  # moto reads them as it is imported

from tests.clouds.aws.cloud import Cloud  # noqa: E402
from tests.clouds.aws.wire import Answer, as_json, read  # noqa: E402

_CONTROLS = "/_f/"
_IMDS = "/_imds/"
_META = "latest/meta-data/"
_TOKEN = "latest/api/token"


class Controls:
    """What tests order, as JSON: `POST /_f/<name>` with the arguments, or `GET /_f/<name>`."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._named: dict[str, Callable[[Any], Any]] = {
            "rules": cloud.set_rules,
            "knobs": cloud.set_knobs,
            "clock": self._clock,
            "interrupt": lambda told: cloud.interrupt(**told).isoformat(),
            "rebalance": lambda told: cloud.rebalance(**told),
            "queue": cloud.notices_queue,
            "reset": lambda _: cloud.reset(),
            "log": lambda _: list(cloud.rules.calls),
            "inventory": lambda _: cloud.inventory(),
            "instances": lambda _: cloud.instances(),
            "bill": self._bill,
        }

    def call(self, name: str, body: bytes) -> Answer:
        try:
            return as_json(self._named[name](json.loads(body or b"null")))
        except (KeyError, TypeError, ValueError) as error:
            return Answer(400, "text/plain", repr(error).encode())

    def _clock(self, told: dict[str, Any] | None) -> str:
        """Move it by `advance_s`, stop it `at` a time, or let it `run`; says what time it is."""
        told = told or {}
        if "at" in told:
            self._cloud.clock.set(datetime.fromisoformat(told["at"]))
        if told.get("run"):
            self._cloud.clock.run()
        self._cloud.advance(float(told.get("advance_s", 0)))
        return self._cloud.clock.now().isoformat()

    def _bill(self, told: dict[str, str]) -> dict[str, str]:
        span = datetime.fromisoformat(told["start"]), datetime.fromisoformat(told["end"])
        return {id: str(amount) for id, amount in self._cloud.bill(*span).items()}


def metadata(cloud: Cloud, path: str) -> Answer:
    """The metadata service of one instance."""
    instance, _, what = path.partition("/")
    if what == _TOKEN:
        return Answer(200, "text/plain", b"token")
    told = cloud.metadata(instance, what.removeprefix(_META)) if what.startswith(_META) else None
    if told is None:
        return Answer(404, "text/plain", b"")
    return Answer(200, "text/plain", (told if isinstance(told, str) else json.dumps(told)).encode())


def serve(cloud: Cloud) -> ThreadingHTTPServer:
    controls = Controls(cloud)

    def answered(path: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        if path.startswith(_CONTROLS):
            return controls.call(path.removeprefix(_CONTROLS), body)
        if path.startswith(_IMDS):
            return metadata(cloud, path.removeprefix(_IMDS))
        return cloud.handle(read(path, headers, body))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one packet an answer: two wait for each other's acknowledgement

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = answered(self.path, dict(self.headers), body)
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST  # noqa: N815  (the base class's names)
        do_PUT = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


def main() -> None:
    server = serve(Cloud())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
