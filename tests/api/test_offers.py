"""Offers over HTTP: found, explained, their sources, and what is not believed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from provisioner.offers.columns import Columns
from tests.provisioner.world import ON_DEMAND, SPOT, START, offer


@pytest.fixture
def stocked(admin, served):
    """The client of an installation that also knows the prices of a cloud it does not have."""
    offers = [
        replace(offer(f"z{n}", SPOT, str(Decimal("0.10") + n)), provider="else") for n in range(3)
    ]
    dirty = replace(offer("z9", ON_DEMAND, "0"), provider="else")
    served.roost.catalogue.update_columns("else.csv", Columns.of([*offers, dirty]), START)
    return admin


def items(client, **params):
    answer = client.get("/v1/offers", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def test_what_can_be_bought_and_with_everything_also_what_cannot(stocked):
    assert {one["provider"] for one in items(stocked, limit=200)} == {"local"}
    found = items(stocked, limit=200, everything=True, provider="else", mode="spot")
    assert [one["price_per_hour"] for one in found] == ["0.1", "1.1", "2.1"]
    assert {one["buyable"] for one in found} == {False}
    assert {one["source"] for one in found} == {"else.csv"}
    assert {one["stale"] for one in found} == {True}


def test_pages_hold_each_offer_once(stocked):
    seen, cursor = [], None
    while True:
        params = {"limit": 3, "everything": True} | ({"cursor": cursor} if cursor else {})
        answer = stocked.get("/v1/offers", params=params).json()
        seen += [one["id"] for one in answer["items"]]
        cursor = answer["next"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) > 3


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"cpus": "lots"}, "Write 32+, 4..8 or 8"),
        ({"gpu": "A100:x"}, "Write A100:8"),
        ({"region": "mars"}, "Known are"),
        ({"throughput": "x"}, "Write A100=100"),
        ({"cursor": "x"}, "none of ours"),
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(stocked, params, told):
    answer = stocked.get("/v1/offers", params=params)
    assert answer.status_code == 422
    assert told in answer.text


def test_why_the_others_do_not_fit(stocked):
    answer = stocked.get("/v1/offers/left-out", params={"mode": "spot"}).json()
    told = {one["because"]: one for one in answer["items"]}
    assert set(told) == {"mode", "not_sold_here"}
    assert told["mode"]["example"]["mode"] == "on-demand"
    assert told["not_sold_here"]["count"] == 3


def test_sources_and_the_rows_that_are_not_believed(stocked):
    sources = {one["name"]: one for one in stocked.get("/v1/offers/sources").json()["items"]}
    assert sources["local"]["buyable"]
    assert (sources["else.csv"]["offers"], sources["else.csv"]["quarantined"]) == (3, 1)
    (bad,) = stocked.get("/v1/offers/quarantine").json()["items"]
    assert bad["reason"] == "its price is not above zero"


def test_a_source_that_does_not_answer_is_listed_with_its_error(stocked, served):
    served.roost.market.note_source("azure retail prices", "prices.azure.com answers 503")
    sources = {one["name"]: one for one in stocked.get("/v1/offers/sources").json()["items"]}
    silent = sources["azure retail prices"]
    assert (silent["offers"], silent["at"]) == (0, None)
    assert silent["error"] == "prices.azure.com answers 503"


def test_what_a_machine_comes_to_with_its_disk(stocked, served):
    served.roost.market.rates["local"] = served.roost.providers["local"].rates()
    (first, *_) = items(stocked, disk_gib=730)
    assert first["beside_per_hour"] == "0.1", "the local provider's price of a GiB-month"
    assert float(first["total_per_hour"]) == pytest.approx(float(first["price_per_hour"]) + 0.1)
    (unknown, *_) = items(stocked, everything=True, provider="else", address=True)
    assert (unknown["beside_per_hour"], unknown["total_per_hour"]) == (None, None)


def test_why_not_names_what_is_not_sold_here(stocked):
    answer = stocked.get("/v1/offers/left-out", params={"region": "r"}).json()
    told = {one["because"]: one["count"] for one in answer["items"]}
    assert told["not_sold_here"] == 3
    answer = stocked.get("/v1/offers", params={"region": "r"})
    assert answer.status_code == 422
    assert "what the other sources know" in answer.text


def test_a_member_sees_the_same_offers(stocked, served, folk):
    with served.client(folk.vision_member) as member:
        assert items(member, limit=200) == items(stocked, limit=200)
