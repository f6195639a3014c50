"""Who may do what, seen from outside."""

from __future__ import annotations

import logging

from tests.api.conftest import assert_problem

NO_TOKENS = [None, "", "Bearer", "Bearer wrong", "Basic YWRtaW46", "Bearer \xff"]


def test_without_a_valid_token_nothing_is_shown(served):
    for header in NO_TOKENS:
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        with served.client() as client:
            response = client.get("/v1/teams", headers=headers)
        assert_problem(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"] == "Bearer"


def test_who_is_unknown_learns_nothing_of_the_request(served):
    with served.client() as client:
        assert_problem(client.post("/v1/teams", json={"x": 1}), 401, "unauthenticated")


def test_a_token_in_the_address_or_a_cookie_is_none(served):
    with served.client() as client:
        for query in ("token", "access_token"):
            response = client.get("/v1/me", params={query: served.admin_token})
            assert_problem(response, 401, "unauthenticated")
        cookie = {"Cookie": f"token={served.admin_token}"}
        assert_problem(client.get("/v1/me", headers=cookie), 401, "unauthenticated")


def test_health_needs_no_token(served):
    with served.client() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ready"}


def test_a_revoked_token_is_worth_nothing_at_once(served, admin, folk):
    with served.client(folk.vision_member) as mina:
        assert mina.get("/v1/me").json()["name"] == "mina"
        mine = next(
            each
            for each in admin.get("/v1/tokens").json()["items"]
            if each["person_name"] == "mina"
        )
        assert admin.delete(f"/v1/tokens/{mine['id']}").status_code == 204
        assert_problem(mina.get("/v1/me"), 401, "unauthenticated")


def test_a_member_cannot_see_another_team(served, admin, folk):
    with served.client(folk.vision_member) as mina, served.client(folk.speech_member) as sam:
        job = sam.post("/v1/jobs", json={"name": "listen", "argv": ["python", "-V"]})
        assert job.status_code == 201, job.text
        desk = sam.post("/v1/workstations", json={"name": "desk"})
        assert desk.status_code == 201, desk.text
        job_id, desk_id = job.json()["id"], desk.json()["id"]
        for path in (
            "/v1/teams/speech",
            f"/v1/jobs/{job_id}",
            f"/v1/jobs/{job_id}/logs",
            f"/v1/jobs/{job_id}/progress",
            f"/v1/workstations/{desk_id}",
            f"/v1/explain/{desk_id}",
        ):
            assert_problem(mina.get(path), 404, "not-found")
        for path in (f"/v1/jobs/{job_id}/cancel", f"/v1/workstations/{desk_id}/stop"):
            assert_problem(mina.post(path), 404, "not-found")
        assert_problem(mina.delete(f"/v1/workstations/{desk_id}"), 404, "not-found")
        assert mina.get("/v1/jobs").json()["items"] == []
        assert mina.get("/v1/workstations").json()["items"] == []
        assert [each["name"] for each in mina.get("/v1/teams").json()["items"]] == ["vision"]
        assert sam.get(f"/v1/jobs/{job_id}").json()["name"] == "listen"


def test_a_lead_sets_the_budget_of_their_own_team_only(served, folk):
    budget = {"amount": "100.00", "currency": "USD"}
    with served.client(folk.vision_lead) as lena, served.client(folk.vision_member) as mina:
        changed = lena.put("/v1/teams/vision/budget", json=budget)
        assert changed.status_code == 200
        assert changed.json()["budget_amount"] == "100.00"
        assert_problem(lena.put("/v1/teams/speech/budget", json=budget), 404, "not-found")
        assert_problem(mina.put("/v1/teams/vision/budget", json=budget), 403, "forbidden")


def test_a_member_cannot_apply_a_policy(served, folk):
    policy = {"text": "policy: house\nversion: 1\n", "filename": "house.yaml"}
    with served.client(folk.vision_member) as mina:
        assert_problem(mina.post("/v1/policies", json=policy), 403, "forbidden")


def test_no_token_is_logged(served, admin, folk, caplog):
    with caplog.at_level(logging.DEBUG), served.client(folk.vision_lead) as lena:
        lena.post("/v1/tokens", json={"person": "mina", "label": "laptop"})
        lena.get("/v1/me")
        lena.get("/v1/nothing")
    assert folk.vision_lead not in caplog.text
    assert "roost_" not in caplog.text
