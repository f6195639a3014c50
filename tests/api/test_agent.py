"""The agents' side: what is bounded before a service sees it."""

from __future__ import annotations

import hashlib

import pytest

from tests.api.conftest import assert_problem

BEAT = {"protocol": 1, "instance_id": "ins_x", "boot_id": "b", "seq": 1, "uptime_s": 1.5}


@pytest.fixture
def stranger(served):
    with served.client("roost_nobody") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "register",
            {
                "protocol": 1,
                "instance_id": "ins_x",
                "token_sha256": "0" * 64,
                "boot_id": "b",
                "agent_version": "1",
                "from_tomorrow": True,
            },
        ),
        ("heartbeat", BEAT | {"from_tomorrow": {"a": 1}}),
        ("logs", {"task_id": "att_x", "offset": 0, "text": "x"}),
        ("progress", {"task_id": "att_x", "offset": 0, "records": [{"loss": 1.0}]}),
        ("commands/cmd_x", {"exit_code": 0}),
    ],
)
def test_a_stranger_is_refused_and_unknown_fields_are_not(stranger, path, body):
    response = stranger.post(f"/v1/agent/{path}", json=body)
    assert_problem(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_persons_token_is_no_machines_token(admin):
    assert_problem(admin.post("/v1/agent/heartbeat", json=BEAT), 401, "unauthenticated")


NONSENSE = [{"protocol": 2}, {"seq": -1}, {"instance_id": "a/b"}]


def test_a_message_that_makes_no_sense_is_refused(stranger):
    for change in NONSENSE:
        response = stranger.post("/v1/agent/heartbeat", json=BEAT | change)
        assert_problem(response, 422, "invalid")


def test_the_wheel_is_what_its_etag_says(served):
    with served.client() as client:
        response = client.get("/v1/agent/wheel")
    assert response.status_code == 200, response.text
    assert response.headers["etag"] == f'"{hashlib.sha256(response.content).hexdigest()}"'
    assert response.content.startswith(b"PK")
