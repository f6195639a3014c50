"""Policies, explanations, costs and the report over HTTP."""

from __future__ import annotations

import csv
import io

from tests.api.conftest import assert_problem

HOUSE = {"text": "policy: house\nversion: 1\n", "filename": "house.yaml"}


def test_a_policy_is_checked_planned_and_applied(admin):
    assert admin.post("/v1/policies/check", json=HOUSE).json() == {"problems": []}
    plan = admin.post("/v1/policies/plan", json=HOUSE)
    assert plan.status_code == 200, plan.text
    assert plan.json()["decisions"] == []
    assert admin.get("/v1/policies").json()["items"] == []
    first = admin.post("/v1/policies", json=HOUSE)
    assert first.status_code == 201
    assert (first.json()["name"], first.json()["version"]) == ("house", 1)
    again = admin.post("/v1/policies", json=HOUSE | {"text": HOUSE["text"] + "\n"})
    assert again.json()["version"] == 2
    assert admin.get("/v1/policies/house").json()["version"] == 2
    assert admin.get("/v1/policies/house?version=1").json() == first.json() | {"active": False}
    assert_problem(admin.get("/v1/policies/house?version=3"), 404, "not-found")


def test_a_wrong_policy_is_told_by_line(admin):
    wrong = HOUSE | {"text": HOUSE["text"] + "allowed: {}\n"}
    (problem,) = admin.post("/v1/policies/check", json=wrong).json()["problems"]
    assert (problem["file"], problem["line"], problem["severity"]) == ("house.yaml", 3, "error")
    body = assert_problem(admin.post("/v1/policies", json=wrong), 422, "invalid")
    assert "house.yaml:3" in body["detail"]


def test_what_nobody_decided_has_no_explanation(admin, folk):
    made = admin.post("/v1/workstations", json={"name": "desk", "team": "vision"})
    assert made.status_code == 201, made.text
    assert admin.get(f"/v1/explain/{made.json()['id']}").json() == {"items": []}
    assert_problem(admin.get("/v1/explain/nothing"), 404, "not-found")
    assert_problem(admin.get("/v1/snapshots/snap_none/replay"), 404, "not-found")


def test_costs_of_a_month_without_any(admin, folk):
    shown = admin.get("/v1/costs", params={"team": "vision", "group_by": "job"})
    assert shown.status_code == 200, shown.text
    body = shown.json()
    assert body["team_name"] == "vision"
    assert float(body["total"]) == 0
    assert body["rows"] == []
    assert admin.get("/v1/usage-intervals").json() == {"items": [], "next": None}


def test_the_focus_export_is_csv_with_its_columns(admin, folk):
    response = admin.get("/v1/costs/focus.csv", params={"team": "vision"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    (header,) = csv.reader(io.StringIO(response.text))
    assert {"BilledCost", "BillingCurrency", "ChargePeriodStart"} <= set(header)


def test_the_report_loads_nothing_from_elsewhere(admin, folk):
    response = admin.get("/v1/reports/current", params={"team": "vision"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert "vision" in response.text
    assert "<script" not in response.text


def test_the_costs_of_another_team_are_not_shown(served, folk):
    with served.client(folk.vision_member) as mina:
        for path in ("/v1/costs", "/v1/reports/current", "/v1/costs/focus.csv"):
            assert_problem(mina.get(path, params={"team": "speech"}), 404, "not-found")


def test_the_status_names_the_provider(admin):
    status = admin.get("/v1/status").json()
    assert [each["name"] for each in status["providers"]] == ["local"]
    assert status["version"]


def test_offers_are_cheapest_first_and_narrowed(admin):
    offers = admin.get("/v1/offers", params={"limit": 200}).json()["items"]
    assert offers
    prices = [float(each["price_per_hour"]) for each in offers]
    assert prices == sorted(prices)
    spot = admin.get("/v1/offers", params={"limit": 200, "mode": "spot"}).json()["items"]
    assert 0 < len(spot) < len(offers)
    assert {each["mode"] for each in spot} == {"spot"}
    assert admin.get("/v1/offers", params={"max_price_per_hour": "0"}).json()["items"] == []
