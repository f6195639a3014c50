"""A real HTTP server on loopback that answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = Callable[[str, dict[str, str], dict[str, str]], Any]
"""Of a path, its query and the headers: what is sent as JSON, a text as it is, or a status."""


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The server's URL, while it runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            said = answer(parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()))
            status = said if isinstance(said, int) else 200
            body = said if isinstance(said, str) else json.dumps(said)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
