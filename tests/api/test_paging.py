"""Lists in parts."""

from __future__ import annotations

import re

from tests.api.conftest import assert_problem


def _teams(admin, count: int) -> set[str]:
    names = {f"team-{number}" for number in range(count)}
    for name in names:
        assert admin.post("/v1/teams", json={"name": name}).status_code == 201
    return names | {"default"}


def test_following_next_shows_everything_once(admin):
    names = _teams(admin, 7)
    seen, cursor = [], None
    while True:
        params = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        part = admin.get("/v1/teams", params=params).json()
        assert len(part["items"]) <= 3
        seen += [team["name"] for team in part["items"]]
        cursor = part["next"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(names)


def test_following_the_link_shows_everything_once(admin):
    names = _teams(admin, 5)
    seen, url = [], "/v1/teams?limit=2"
    while url:
        response = admin.get(url)
        seen += [team["name"] for team in response.json()["items"]]
        link = re.fullmatch(r'<(.+)>; rel="next"', response.headers.get("link", ""))
        assert (link is None) == (response.json()["next"] is None)
        url = link[1] if link else None
    assert sorted(seen) == sorted(names)


def test_what_is_added_meanwhile_shifts_nothing(admin):
    names = _teams(admin, 4)
    first = admin.get("/v1/teams", params={"limit": 2}).json()
    admin.post("/v1/teams", json={"name": "late"})
    rest = admin.get("/v1/teams", params={"limit": 200, "cursor": first["next"]}).json()
    seen = [team["name"] for team in first["items"] + rest["items"]]
    assert sorted(seen) == sorted(names)


NO_PARTS = [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": "none of ours"}, {"limti": 3}]


def test_a_wrong_part_is_refused(admin):
    for params in NO_PARTS:
        assert_problem(admin.get("/v1/teams", params=params), 422, "invalid")
