"""Every error is a problem with a remedy, and tells nothing of the inside."""

from __future__ import annotations

import json
import logging

from tests.api.conftest import assert_problem


def test_an_unknown_path_is_a_problem(admin):
    body = assert_problem(admin.get("/v1/nothing"), 404, "not-found")
    assert "openapi.json" in body["remedy"]


def test_an_unknown_thing_is_a_problem_that_names_it(admin):
    body = assert_problem(admin.get("/v1/teams/nowhere"), 404, "not-found")
    assert "nowhere" in body["detail"]


def test_a_wrong_method_is_told_all_right_ones(admin):
    response = admin.put("/v1/teams")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET, POST"


def test_a_wrong_request_names_every_wrong_part(admin):
    body = assert_problem(
        admin.post("/v1/teams", json={"name": "No Name", "color": 1}), 422, "invalid"
    )
    assert [part["where"] for part in body["errors"]] == ["body.name", "body.color"]


NO_JSON = [(b"{", 422, "invalid"), (b'"\xff"', 400, "malformed"), (b"[" * 90000, 400, "malformed")]


def test_a_body_that_is_no_json(admin):
    headers = {"content-type": "application/json"}
    for content, status, code in NO_JSON:
        made = admin.post("/v1/teams", content=content, headers=headers)
        assert_problem(made, status, code)


def test_a_declared_large_body_is_refused(admin):
    body = b'{"name": "' + b"x" * (4 * 1024 * 1024) + b'"}'
    headers = {"content-type": "application/json"}
    assert_problem(admin.post("/v1/teams", content=body, headers=headers), 413, "too-large")


def test_a_large_body_without_a_length_is_refused(admin):
    def chunks():
        for _ in range(70):
            yield b"x" * 65536

    headers = {"content-type": "application/json"}
    assert_problem(admin.post("/v1/teams", content=chunks(), headers=headers), 413, "too-large")


def test_the_unforeseen_is_logged_under_an_id_and_not_shown(served, admin, monkeypatch, caplog):
    def broken(*_: object) -> None:
        raise RuntimeError("the cellar is flooded")

    monkeypatch.setattr(served.roost.people, "teams", broken)
    with caplog.at_level(logging.ERROR, logger="roost.api"):
        response = admin.get("/v1/teams")
    body = assert_problem(response, 500, "internal")
    assert "cellar" not in response.text
    assert "RuntimeError" not in response.text
    occurrence = str(body["instance"]).removeprefix("urn:roost:occurrence:")
    assert occurrence.startswith("err_")
    record = next(each for each in caplog.records if occurrence in each.getMessage())
    assert record.exc_info is not None
    assert "cellar" in str(record.exc_info[1])


NO_NAMES = ["\ud800", "a\x00b", "ü", "x" * 64, "-a", "a b", ""]


def test_names_that_are_none(admin):
    for name in NO_NAMES:
        body = b'{"name": ' + json.dumps(name).encode() + b"}"
        headers = {"content-type": "application/json"}
        made = admin.post("/v1/teams", content=body, headers=headers)
        assert_problem(made, 422, "invalid")
