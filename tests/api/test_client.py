"""The client against the real server, also when the answer is lost on its way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from api.client import Client, ClientProblem


@contextmanager
def losing_answers(url: str, count: int) -> Iterator[tuple[str, list[str]]]:
    """A way to `url` on which the first `count` answers are lost; its URL and the keys it saw."""
    keys: list[str] = []

    class Way(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            keys.append(self.headers["idempotency-key"])
            answer = httpx.post(
                url + self.path, content=body, headers=dict(self.headers), trust_env=False
            )
            self.close_connection = True
            if len(keys) <= count:
                return
            self.send_response(answer.status_code)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Way)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_post_whose_answer_is_lost_is_repeated_and_done_once(served, admin):
    with losing_answers(served.url, 2) as (url, keys), Client(url, served.admin_token) as client:
        made = client.create_team({"name": "vision"})
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert admin.get("/v1/teams/vision").json() == made


def test_a_token_is_not_asked_for_twice(served, admin):
    with (
        losing_answers(served.url, 1) as (url, keys),
        Client(url, served.admin_token) as client,
        pytest.raises(ClientProblem) as lost,
    ):
        client.create_token({"person": "admin", "label": "laptop"})
    assert lost.value.code == "unreachable"
    assert keys == [None]


def test_a_list_is_walked_to_its_end(served, admin):
    with Client(served.url, served.admin_token) as client:
        for number in range(205):
            served.roost.people.create_team(served.actor(served.admin_token), f"t-{number}")
        assert len(list(client.teams())) == 206


def test_a_problem_keeps_its_code_detail_and_remedy(served):
    with Client(served.url, served.admin_token) as client, pytest.raises(ClientProblem) as told:
        client.job("nothing")
    assert (told.value.code, told.value.status) == ("not-found", 404)
    assert "nothing" in told.value.message
    assert told.value.remedy
    assert told.value.body["type"] == "urn:roost:problem:not-found"


def test_a_name_is_one_segment_of_the_path_whatever_it_is(served):
    with Client(served.url, served.admin_token) as client:
        for ref in ("../me", "a/b", "", "a?b", "ü"):
            with pytest.raises(ClientProblem):
                client.job(ref)
