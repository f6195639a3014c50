"""A repeated POST gives the first answer, and never a second thing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import sqlalchemy as sa

from provisioner.store import idempotency as memory
from provisioner.store.tables import idempotency
from tests.api.conftest import assert_problem

KEY = {"Idempotency-Key": "2f1c6c9e"}


def _count(admin) -> int:
    """Teams that were made, beside the one that is there from the start."""
    return len(admin.get("/v1/teams", params={"limit": 200}).json()["items"]) - 1


def test_a_repeat_gives_the_same_answer_and_makes_nothing(admin):
    first = admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
    again = admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert first.status_code == 201
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert _count(admin) == 1


def test_the_same_key_with_another_request_is_refused(admin):
    admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
    for path, body in (("/v1/teams", {"name": "speech"}), ("/v1/people", {"name": "vision"})):
        body = assert_problem(admin.post(path, json=body, headers=KEY), 422, "key-reused")
        assert "new key" in body["remedy"]
    assert _count(admin) == 1


def test_a_key_belongs_to_one_person(served, admin, folk):
    body = {"name": "train", "argv": ["python", "-V"]}
    with served.client(folk.vision_member) as mina, served.client(folk.speech_member) as sam:
        first = mina.post("/v1/jobs", json=body, headers=KEY)
        other = sam.post("/v1/jobs", json=body, headers=KEY)
    assert first.status_code == other.status_code == 201
    assert first.json()["id"] != other.json()["id"]


def test_what_failed_may_be_tried_again_under_its_key(admin):
    body = {"name": "ada", "team": "vision"}
    assert_problem(admin.post("/v1/people", json=body, headers=KEY), 404, "not-found")
    admin.post("/v1/teams", json={"name": "vision"})
    assert admin.post("/v1/people", json=body, headers=KEY).status_code == 201


def test_while_the_first_is_at_work_a_repeat_is_told_to_come_back(served, admin, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    create = served.roost.people.create_team

    def slow(*arguments):
        begun.set()
        assert go_on.wait(20)
        return create(*arguments)

    monkeypatch.setattr(served.roost.people, "create_team", slow)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(admin.post, "/v1/teams", json={"name": "vision"}, headers=KEY)
        try:
            assert begun.wait(20)
            again = admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
        finally:
            go_on.set()
        assert_problem(again, 409, "in-progress")
        assert int(again.headers["retry-after"]) >= 1
        assert first.result().status_code == 201
    replay = admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
    assert replay.headers["idempotency-replayed"] == "true"


def test_of_many_at_once_one_is_done(admin):
    def post(_: int):
        return admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(16)))
    assert {each.status_code for each in answers} <= {201, 409}
    made = [each for each in answers if each.status_code == 201]
    assert len({each.json()["id"] for each in made}) == 1
    assert sum("idempotency-replayed" not in each.headers for each in made) == 1
    assert _count(admin) == 1


def test_an_unforeseen_error_frees_the_key(served, admin, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patched:
        patched.setattr(served.roost.people, "create_team", broken)
        response = admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
        assert_problem(response, 500, "internal")
    assert admin.post("/v1/teams", json={"name": "vision"}, headers=KEY).status_code == 201


def test_the_secret_of_a_token_is_never_stored(served, admin):
    body = {"person": "admin", "label": "laptop"}
    first = admin.post("/v1/tokens", json=body, headers=KEY)
    again = admin.post("/v1/tokens", json=body, headers=KEY)
    assert first.status_code == again.status_code == 201
    assert first.json()["secret"] != again.json()["secret"]
    with served.roost.store.read() as connection:
        assert connection.execute(sa.select(idempotency)).all() == []


def test_a_key_must_be_visible_ascii(admin):
    for key in (b"", b"a b", b"x" * 256, b"\xfc"):
        response = admin.post(
            "/v1/teams", json={"name": "vision"}, headers={b"Idempotency-Key": key}
        )
        assert_problem(response, 422, "invalid")
    assert _count(admin) == 0


def test_without_a_token_a_key_tells_nothing(served, admin):
    admin.post("/v1/teams", json={"name": "vision"}, headers=KEY)
    with served.client() as client:
        response = client.post("/v1/teams", json={"name": "vision"}, headers=KEY)
    assert_problem(response, 401, "unauthenticated")


def test_a_crash_before_the_answer_was_kept_makes_no_second_job(admin, folk, served, monkeypatch):
    body = {"name": "train", "argv": ["python", "-V"]}
    with served.client(folk.vision_member) as mina:
        with monkeypatch.context() as patch:
            patch.setattr(memory, "finish", lambda *_: None)  # the process ends here
            first = mina.post("/v1/jobs", json=body, headers=KEY).json()
        monkeypatch.setattr(memory, "STALE", timedelta())  # and the claim grows old
        again = mina.post("/v1/jobs", json=body, headers=KEY)
        assert again.status_code == 201
        assert again.json()["id"] == first["id"]
        assert [job["id"] for job in mina.get("/v1/jobs").json()["items"]] == [first["id"]]
