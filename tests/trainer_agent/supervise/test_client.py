from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from tests.trainer_agent.supervise.control_plane import ControlPlane as Server
from trainer_agent.supervise.client import Backoff, ControlPlane, Refused, Unavailable


class Noon:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("99999999", 300.0),
        ("soon", None),
    ],
)
def test_retry_after_is_read(control: Server, header: str, wait_s: float | None) -> None:
    control.status = lambda path: (503, {"Retry-After": header})
    with pytest.raises(Unavailable) as caught:
        ControlPlane(control.url, Noon()).post("/v1/agent/heartbeat", {}, "secret")
    assert caught.value.retry_after_s == wait_s
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, Refused), (404, Refused), (302, Refused), (429, Unavailable), (500, Unavailable)],
)
def test_each_answer_has_one_meaning(control: Server, status: int, error: type[Exception]) -> None:
    control.status = lambda path: (status, {"Location": control.url})
    with pytest.raises(error):
        ControlPlane(control.url, Noon()).post("/v1/agent/heartbeat", {}, "secret")
    assert len(control.paths) == 1  # a redirect is not followed: the token stays here


def test_nobody_there_is_unavailable(control: Server) -> None:
    control.close()
    with pytest.raises(Unavailable):
        ControlPlane(control.url, Noon()).post("/v1/agent/heartbeat", {}, "secret")


def test_waits_double_up_to_a_limit_and_never_undercut_the_servers_word() -> None:
    backoff = Backoff(1.0, 8.0, random.Random(1))
    waits = [backoff.failed(Unavailable("x")) for _ in range(6)]
    for wait, most in zip(waits, (1, 2, 4, 8, 8, 8), strict=True):
        assert most / 2 <= wait <= most
    assert 20.0 <= backoff.failed(Unavailable("x", 20.0)) <= 21.0
    backoff.succeeded()
    assert backoff.failed(Unavailable("x")) <= 1.0
