from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from provisioner import reachability, tls
from provisioner.clock import ManualClock
from provisioner.providers.contract import Capabilities
from provisioner.reachability import Reachability, judge
from tests.certificates import certificate

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WHEEL = "a" * 64


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:8470", "loopback"),
        ("https://127.9.9.9", "loopback"),
        ("https://localhost:8470", "loopback"),
        ("https://roost.localhost", "loopback"),
        ("https://[::1]:8470", "loopback"),
        ("https://[::ffff:127.0.0.1]", "loopback"),
        ("https://0.0.0.0:8470", "other machines cannot call"),
        ("https://[::]:8470", "other machines cannot call"),
        ("https://169.254.1.1", "other machines cannot call"),
        ("http://203.0.113.7:8470", "plain http"),
        ("http://100.64.0.1", "plain http"),
        ("http://[2001:db8::1]", "plain http"),
        ("ftp://roost.example.org", "no http or https"),
        ("roost.example.org", "no http or https"),
    ],
)
def test_an_address_that_cannot_do_is_known_at_once(url: str, words: str) -> None:
    trouble = judge(url)
    assert trouble is not None
    assert words in trouble.reason
    assert "public_url" in trouble.remedy


@pytest.mark.parametrize(
    "url",
    [
        "https://roost.example.org",
        "https://203.0.113.7:8470",
        "http://10.1.2.3:8470",
        "http://172.31.0.1",
        "http://192.168.1.1:8470",
        "http://[fd00::1]:8470",
    ],
)
def test_an_address_that_may_do(url: str) -> None:
    assert judge(url) is None


class Answers(BaseHTTPRequestHandler):
    status, etag = 200, WHEEL
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(self.status if self.path == "/v1/agent/wheel" else 404)
        self.send_header("ETag", f'"{self.etag}"')
        self.send_header("Content-Length", "3")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever mistrusts it hangs up in the middle of things."""


@pytest.fixture
def answers() -> type[Answers]:
    return type("Mine", (Answers,), {})


@pytest.fixture
def server(tmp_path: Path, answers: type[Answers]) -> Iterator[tuple[str, str]]:
    """A control plane under a name, with TLS: its address, and who vouches for it."""
    authority = certificate(tmp_path, "authority", authority=True)
    shown = certificate(tmp_path, "shown", "roost.test", by=authority)
    server = Server(("127.0.0.1", 0), answers)
    server.socket = tls.serving(shown.path, shown.key).wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"https://roost.test:{server.server_address[1]}", authority.text
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A name service of the test's own."""
    known = {"roost.test": "127.0.0.1"}
    real = socket.getaddrinfo

    def look_up(host: str, *more: Any, **also: Any) -> Any:
        if host.endswith(".test") and host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return real(known.get(host, host), *more, **also)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def seen(url: str, ca: str | None, clock: ManualClock | None = None) -> Reachability:
    return Reachability(url, clock or ManualClock(NOON), lambda: WHEEL, ca)


def reason(one: Reachability) -> str | None:
    trouble = one.trouble()
    return None if trouble is None else trouble.reason


def test_it_is_shut_until_it_has_answered_through_its_name(server: tuple[str, str]) -> None:
    one = seen(*server)
    assert "not known yet" in str(reason(one))
    one.look()
    assert reason(one) is None


def test_a_certificate_that_machines_would_refuse(server: tuple[str, str], tmp_path: Path) -> None:
    url, _ = server
    stranger = certificate(tmp_path, "stranger", authority=True)
    for ca in (stranger.text, None):
        one = seen(url, ca)
        one.look()
        assert "certificate that machines would refuse" in str(reason(one))


def test_somebody_else_answers(server: tuple[str, str], answers: type[Answers]) -> None:
    one = seen(*server)
    answers.etag = "b" * 64
    one.look()
    assert "not as this control plane does" in str(reason(one))
    answers.etag, answers.status = WHEEL, 503
    one.look()
    assert "answers 503" in str(reason(one))
    answers.status = 200
    one.look()
    assert reason(one) is None


def test_nobody_answers(server: tuple[str, str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        one = seen(f"https://roost.test:{free.getsockname()[1]}", server[1])
    one.look()
    assert "does not answer from here" in str(reason(one))
    other = seen("https://nobody.test", None)
    other.look()
    assert "Name or service not known" in str(reason(other))


def test_plain_http_goes_by_what_a_name_stands_for(names: dict[str, str]) -> None:
    names["open.test"] = "203.0.113.7"
    one = seen("http://open.test", None)
    one.look()
    assert "plain http" in str(reason(one))


def test_a_good_answer_is_believed_for_a_while_and_a_bad_one_is_not(
    server: tuple[str, str], answers: type[Answers]
) -> None:
    clock = ManualClock(NOON)
    one = seen(*server, clock)
    one.look()
    one.look()
    assert answers.asked == 1
    answers.status = 500
    clock.set(NOON + timedelta(minutes=6))
    one.look()
    one.look()
    assert answers.asked == 3
    assert "answers 500" in str(reason(one))


class OfACloud:
    capabilities = Capabilities()


class OfThisHost:
    capabilities = Capabilities(same_host=True)


def test_only_providers_of_machines_elsewhere_are_shut() -> None:
    providers: Any = {"local": OfThisHost(), "aws": OfACloud(), "gce": OfACloud()}
    one = seen("http://127.0.0.1:8470", None)
    closures = one.closures(providers)
    assert [closure.scope for closure in closures] == ["aws", "gce"]
    assert "loopback" in closures[0].reason
    assert "public_url" in closures[0].remedy
    assert reachability.LOOK_EVERY_S < 60
