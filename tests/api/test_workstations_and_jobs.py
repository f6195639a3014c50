"""Desks and jobs over HTTP; no machine runs here, the wishes are what is tested."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.api.conftest import assert_problem

JOB = {"name": "train", "argv": ["python", "train.py"]}


@pytest.fixture
def mina(served, folk):
    with served.client(folk.vision_member) as client:
        yield client


def test_the_life_of_a_desk(mina):
    made = mina.post(
        "/v1/workstations",
        json={"name": "desk", "cpus": 1, "max_price_per_hour": "5", "labels": {"keep": "yes"}},
    )
    assert made.status_code == 201, made.text
    desk = made.json()
    assert (desk["phase"], desk["desire"], desk["owner_name"]) == ("waiting", "on", "mina")
    assert desk["needs"]["max_price_per_hour"] == "5"
    assert desk["labels"] == {"keep": "yes"}
    assert mina.get("/v1/workstations/desk").json()["id"] == desk["id"]
    stopped = mina.post("/v1/workstations/desk/stop")
    assert stopped.status_code == 202
    assert stopped.json()["phase"] == "off"
    assert mina.post("/v1/workstations/desk/start").json()["desire"] == "on"
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()  # noqa: TID251
    held = mina.put("/v1/workstations/desk/hold", json={"kind": "keep-running", "until": until})
    assert held.json()["hold_kind"] == "keep-running"
    assert datetime.fromisoformat(held.json()["hold_until"]) == datetime.fromisoformat(until)
    assert mina.delete("/v1/workstations/desk/hold").json()["hold_kind"] is None
    assert mina.delete("/v1/workstations/desk").status_code == 202


def test_a_command_needs_a_ready_desk(mina):
    mina.post("/v1/workstations", json={"name": "desk"})
    response = mina.post("/v1/workstations/desk/exec", json={"argv": ["ls"]})
    body = assert_problem(response, 409, "conflict")
    assert "desk" in body["detail"]
    assert_problem(mina.get("/v1/commands/cmd_none"), 404, "not-found")


NONSENSE_DESKS = [
    {"cpus": -1},
    {"cpus": "2"},
    {"cpus": True},
    {"cpus": 1e9},
    {"gpus": 1.5},
    {"name": "Desk"},
    {"mode": "cheap"},
    {"max_price_per_hour": 0.5},
    {"labels": {"a b": "c"}},
    {"labels": {"a": "x" * 256}},
    {"volume_gib": 0},
    {"colour": "red"},
]


def test_a_desk_that_makes_no_sense_is_refused(mina):
    for change in NONSENSE_DESKS:
        made = mina.post("/v1/workstations", json={"name": "desk"} | change)
        assert assert_problem(made, 422, "invalid")["errors"]
    assert mina.get("/v1/workstations").json()["items"] == []


NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999"]


def test_numbers_that_are_none_are_refused(mina):
    headers = {"content-type": "application/json"}
    for number in NO_NUMBERS:
        desk = f'{{"name": "desk", "cpus": {number}}}'.encode()
        made = mina.post("/v1/workstations", content=desk, headers=headers)
        assert_problem(made, 422, "invalid")
        job = f'{{"name": "x", "recipe": "r", "config": {{"lr": [{number}]}}}}'.encode()
        assert_problem(mina.post("/v1/jobs", content=job, headers=headers), 422, "invalid")


def test_a_budget_that_has_no_room_is_told(admin, mina):
    admin.put("/v1/teams/vision/budget", json={"amount": "0.001", "currency": "USD"})
    response = mina.post("/v1/workstations", json={"name": "desk"})
    body = assert_problem(response, 409, "budget-exceeded")
    assert "vision" in body["detail"]
    assert body["remedy"]


def test_the_life_of_a_job(mina):
    deadline = "2030-01-01T12:00:00+02:00"
    made = mina.post("/v1/jobs", json=JOB | {"deadline": deadline, "env": {"A": "b"}})
    assert made.status_code == 201, made.text
    job = made.json()
    assert (job["state"], job["attempts"], job["owner_name"]) == ("queued", [], "mina")
    assert datetime.fromisoformat(job["deadline"]) == datetime.fromisoformat(deadline)
    assert job["deadline"].endswith("Z")
    assert mina.get(f"/v1/jobs/{job['id']}").json() == job
    logs = mina.get(f"/v1/jobs/{job['id']}/logs").json()
    assert logs["text"] == ""
    assert logs["ended"] is False
    assert mina.get(f"/v1/jobs/{job['id']}/progress").json() == {"items": [], "next": None}
    assert [each["id"] for each in mina.get("/v1/jobs?state=queued").json()["items"]] == [job["id"]]
    assert mina.get("/v1/jobs?state=running").json()["items"] == []
    assert mina.post(f"/v1/jobs/{job['id']}/cancel").json()["state"] == "cancelled"
    assert mina.get(f"/v1/jobs/{job['id']}/logs").json()["ended"] is True


NONSENSE_JOBS = [
    {"name": "x"},
    JOB | {"recipe": "image-classification"},
    JOB | {"argv": []},
    JOB | {"argv": ["a\x00b"]},
    JOB | {"argv": "python"},
    JOB | {"deadline": 1893456000},
    JOB | {"deadline": "2030-01-01"},
    JOB | {"deadline": "2030-01-01T12:00:00"},
    JOB | {"deadline": "0001-01-01T00:00:00+14:00"},
    JOB | {"env": {"A=B": "c"}},
    JOB | {"nodes": 0},
    JOB | {"config": {"a": json.loads("[" * 40 + "]" * 40)}},
    JOB | {"config": {"a": 2**70}},
]


def test_a_job_that_makes_no_sense_is_refused(mina):
    for body in NONSENSE_JOBS:
        assert_problem(mina.post("/v1/jobs", json=body), 422, "invalid")
    assert mina.get("/v1/jobs").json()["items"] == []
