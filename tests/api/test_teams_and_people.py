"""Teams, budgets, people and tokens over HTTP."""

from __future__ import annotations

from tests.api.conftest import assert_problem


def test_a_team_is_made_once(admin):
    made = admin.post("/v1/teams", json={"name": "vision", "timezone": "Europe/Berlin"})
    assert made.status_code == 201
    assert made.json()["timezone"] == "Europe/Berlin"
    assert made.json()["budget_amount"] is None
    assert_problem(admin.post("/v1/teams", json={"name": "vision"}), 409, "conflict")
    by_name, by_id = admin.get("/v1/teams/vision"), admin.get(f"/v1/teams/{made.json()['id']}")
    assert by_name.json() == by_id.json() == made.json()


def test_a_zone_that_is_none_is_refused(admin):
    for zone in ("Europe/Nowhere", "../../etc/passwd", ""):
        response = admin.post("/v1/teams", json={"name": "vision", "timezone": zone})
        assert_problem(response, 422, "invalid")


def test_an_amount_that_is_none_is_refused(admin, folk):
    amounts = ["-1", "1e3", "NaN", "", "1,5", 12.5, None, "1" * 13, "0.1234567", "\u0661"]
    for amount in amounts:
        response = admin.put("/v1/teams/vision/budget", json={"amount": amount})
        assert_problem(response, 422, "invalid")


def test_money_comes_back_exactly(admin, folk):
    for amount in ("0", "0.10", "999999999999.999999"):
        response = admin.put("/v1/teams/vision/budget", json={"amount": amount, "currency": "EUR"})
        assert response.json()["budget_amount"] == amount
        assert response.json()["budget_currency"] == "EUR"
        assert admin.get("/v1/teams/vision").json()["budget_amount"] == amount


def test_a_person_and_their_token(served, admin, folk):
    made = admin.post("/v1/tokens", json={"person": "mina", "label": "laptop"})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    secret = made.json()["secret"]
    with served.client(secret) as mina:
        me = mina.get("/v1/me").json()
        assert (me["name"], me["team_name"], me["role"]) == ("mina", "vision", "member")
        assert_problem(
            mina.post("/v1/tokens", json={"person": "lena", "label": "x"}), 403, "forbidden"
        )
    assert secret not in admin.get("/v1/tokens").text
    assert secret not in admin.get("/v1/people").text
