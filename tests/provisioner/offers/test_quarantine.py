"""Dirty data is not sold, and each row of it can be read with its reason."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from policies.world import Offer, Resources
from provisioner.offers import quarantine
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns
from provisioner.offers.quarantine import Quarantined, sift
from provisioner.offers.sources.libcloud_file import read_libcloud_prices
from tests.provisioner.world import ON_DEMAND, SPOT, offer

GPU = Resources(96, 1152, 8, "B200")


def sifted(*offers: Offer, may_be_free: bool = False) -> tuple[list[str], list[Quarantined]]:
    """The ids that are sold, and what is not."""
    columns = Columns.of(offers)
    clean, found = sift(columns, "test", may_be_free=may_be_free)
    return [one.id for one, good in zip(offers, clean, strict=True) if good], found


def in_zones(prices: list[str], mode: object = ON_DEMAND, kind: str = "small") -> list[Offer]:
    return [
        offer(f"z{n}", mode, price, kind=kind)  # type: ignore[arg-type]
        for n, price in enumerate(prices)
    ]


@pytest.mark.parametrize("price", ["0", "-0.10", "NaN"])
def test_a_price_that_is_none(price: str) -> None:
    sold, (bad,) = sifted(offer("a", ON_DEMAND, price), offer("b", ON_DEMAND, "0.30"))
    assert sold == ["fake/r/b/small/on-demand"]
    assert (bad.offer_id, bad.reason) == (
        "fake/r/a/small/on-demand",
        "its price is not above zero",
    )


def test_where_the_owner_sets_the_prices_a_machine_may_be_free() -> None:
    sold, bad = sifted(*in_zones(["0"] * 6), offer("a", ON_DEMAND, "0.10"), may_be_free=True)
    assert (len(sold), bad) == (7, [])


@pytest.mark.parametrize("price", ["-0.10", "NaN"])
def test_and_may_not_cost_less_than_nothing(price: str) -> None:
    sold, (bad,) = sifted(offer("a", ON_DEMAND, price), may_be_free=True)
    assert (sold, bad.reason) == ([], "its price is below zero")


@pytest.mark.parametrize("may_be_free", [False, True])
@pytest.mark.parametrize("price", ["Infinity", "1e20"])
def test_a_price_that_nobody_pays(price: str, may_be_free: bool) -> None:
    sold, (bad,) = sifted(offer("a", ON_DEMAND, price), may_be_free=may_be_free)
    assert (sold, bad.reason) == ([], "its price is no sum that anybody pays")


@pytest.mark.parametrize(("price", "seen"), [("0.0299", "0.0996667"), ("1.51", "5.03333")])
def test_a_price_off_that_of_the_type_elsewhere(price: str, seen: str) -> None:
    sold, (bad,) = sifted(*in_zones(["0.30"] * 5 + [price]))
    assert len(sold) == 5
    assert (bad.offer_id, bad.observed) == ("fake/r/z5/small/on-demand", seen)
    assert bad.reason == "its price is off its family's median"


def test_five_times_is_still_believed_and_a_small_family_has_no_median() -> None:
    assert len(sifted(*in_zones(["0.30"] * 5 + ["1.50"]))[0]) == 6
    assert len(sifted(*in_zones(["0.30"] * 3 + ["9.00"]))[0]) == 4


def sizes(*prices: str) -> list[Offer]:
    """The sizes of one series, each twice as large as the one before, in one zone each."""
    return [
        replace(
            offer("a", ON_DEMAND, price, kind=f"m5.{2**n}xlarge"),
            resources=Resources(2 * 2**n, 8 * 2**n),
        )
        for n, price in enumerate(prices)
    ]


def test_a_type_that_is_sold_once_is_held_against_the_other_sizes_of_its_series() -> None:
    good = ["0.1", "0.2", "0.4", "0.8", "1.6"]
    assert len(sifted(*sizes(*good))[0]) == 5
    sold, (bad,) = sifted(*sizes(*good, "0.032"))
    assert len(sold) == 5
    assert (bad.offer_id, bad.observed) == ("fake/r/a/m5.32xlarge/on-demand", "0.01")
    _, (bad,) = sifted(*sizes(*good, "320"))
    assert bad.observed == "100"


def test_a_size_with_much_memory_for_its_cpus_may_be_dear_for_them() -> None:
    lean, rich = sizes("0.1", "0.2", "0.4", "0.8", "1.6", "20")[:5], sizes(*["1"] * 6)[5]
    rich = replace(rich, price_per_hour=Decimal(20), resources=Resources(16, 2048))
    assert len(sifted(*lean, rich)[0]) == 6


def test_a_gpu_for_a_cent_in_all_its_zones() -> None:
    """The type's own median is no help when the type is wrong everywhere."""
    good = [replace(one, resources=GPU) for one in in_zones(["40.00"] * 6, kind="dear")]
    bad = [replace(one, resources=GPU) for one in in_zones(["0.01"] * 5, kind="slip")]
    sold, found = sifted(*good, *bad)
    assert sold == [one.id for one in good]
    assert {one.observed for one in found} == {"0.00025"}


def test_a_machine_with_much_beside_its_gpu_may_cost_much_for_one() -> None:
    small = [replace(one, resources=GPU) for one in in_zones(["4.00"] * 9, kind="small")]
    large = [replace(one, resources=GPU) for one in in_zones(["24.00"] * 5, kind="large")]
    assert len(sifted(*small, *large)[0]) == 14


def test_spot_above_on_demand_is_never_sold_as_spot() -> None:
    sold, (bad,) = sifted(
        offer("a", ON_DEMAND, "0.30"), offer("a", SPOT, "0.31"), offer("b", SPOT, "0.31")
    )
    assert sold == ["fake/r/a/small/on-demand", "fake/r/b/small/spot"]
    assert bad.reason == "as spot it costs more than on demand"


@pytest.mark.parametrize(
    ("has", "reason"),
    [
        (Resources(0, 4), "CPUs"),
        (Resources(float("nan"), 4), "CPUs"),
        (Resources(2, 0), "memory"),
        (Resources(2, 4, 0, "L4"), "GPUs"),
        (Resources(2, 4, 1000, "L4"), "GPUs"),
    ],
    ids=str,
)
def test_impossible_machines(has: Resources, reason: str) -> None:
    bad = offer("a", ON_DEMAND, "0.30")
    sold, (found,) = sifted(replace(bad, resources=has))
    assert sold == []
    assert reason in found.reason


@pytest.mark.parametrize(
    "wrong", [{"instance_type": ""}, {"region": ""}, {"zone": "a/b"}, {"instance_type": "a\nb"}]
)
def test_what_has_no_name_cannot_be_asked_for(wrong: dict[str, str]) -> None:
    sold, (bad,) = sifted(replace(offer("a"), **wrong))  # type: ignore[arg-type]
    assert (sold, bad.reason) == ([], "it lacks a name of its provider, region or type")


def test_a_type_that_nothing_is_known_of() -> None:
    sold, (bad,) = sifted(replace(offer("a"), resources=Resources(float("nan"), float("nan"))))
    assert (sold, bad.reason) == ([], "nothing is known of its CPUs and memory")


def test_of_a_whole_list_of_rubbish_the_first_rows_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quarantine, "MOST_LISTED", 10)
    free = [offer(f"z{n}", ON_DEMAND, "0") for n in range(8)]
    nameless = [replace(offer(f"y{n}"), instance_type="") for n in range(8)]
    catalogue = Catalogue()
    catalogue.update("fake", [*free, *nameless, offer("a")])
    (stock,) = catalogue.stocks()
    assert (len(stock.table), len(stock.quarantined), stock.bad) == (1, 10, 16)


def test_of_two_rows_of_one_offer_the_dearer_is_believed() -> None:
    sold, (bad,) = sifted(offer("a", ON_DEMAND, "0.30"), offer("a", ON_DEMAND, "0.40"))
    assert len(sold) == 1
    assert bad.observed == "0.3"


def test_a_currency_that_is_none() -> None:
    sold, (bad,) = sifted(replace(offer("a"), currency="dollars"))
    assert (sold, bad.observed) == ([], "dollars")


def test_one_bad_row_hides_no_other(tmp_path: Path) -> None:
    catalogue = Catalogue()
    catalogue.update("fake", [offer("a", ON_DEMAND, "0"), offer("b", ON_DEMAND, "0.30")])
    (stock,) = catalogue.stocks()
    assert [one.zone for one in catalogue.all()] == ["b"]
    assert [row.source for row in stock.quarantined] == ["fake"]


def test_the_free_machines_of_libclouds_own_file_are_all_found() -> None:
    columns = read_libcloud_prices("ec2")
    _, found = sift(columns, "libcloud")
    free = [one for one in found if one.reason == "its price is not above zero"]
    assert (len(columns), len(free)) == (15589, 2754)
    assert any("/us-west-2/" in one.offer_id and "/g5.xlarge/" in one.offer_id for one in free)
    assert not any(Decimal(one.observed) > 0 for one in free)
