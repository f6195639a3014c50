from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from policies.world import Offer, Resources
from provisioner.errors import InvalidError, ThrottledError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.service import OfferQuery
from tests.provisioner.world import ON_DEMAND, SPOT, World, offer

GPU = Resources(8, 64, 2, "H100")
OFFERS = [
    offer("a", SPOT, "0.10"),
    offer("b", ON_DEMAND, "0.30"),
    offer("a", ON_DEMAND, "0.30"),
    replace(offer("a", ON_DEMAND, "9.00", kind="gpu"), resources=GPU),
    replace(offer("c", ON_DEMAND, "0.50"), id="fake/us-east/c/small/on-demand", region="us-east"),
]


def search(world: World, **asked: object) -> list[Offer]:
    query = OfferQuery(**asked)  # type: ignore[arg-type]
    return list(world.roost.offers.search(world.admin, query, 50, None).items)


@pytest.fixture
def shop(make_world: Callable[..., World]) -> World:
    return make_world(clouds={"fake": OFFERS})


def test_everything_cheapest_first_and_ties_by_id(shop: World) -> None:
    found = search(shop)
    assert [o.price_per_hour for o in found] == sorted(o.price_per_hour for o in OFFERS)
    assert [o.zone for o in found[1:3]] == ["a", "b"]


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"cpus": 4}, 1),
        ({"memory_gib": 4}, 5),
        ({"memory_gib": 5}, 1),
        ({"gpus": 1}, 1),
        ({"gpus": 3}, 0),
        ({"gpu_model": "H100"}, 1),
        ({"gpu_model": "A100"}, 0),
        ({"mode": SPOT}, 1),
        ({"region": "us-*"}, 1),
        ({"region": "r"}, 4),
        ({"provider": "other"}, 0),
        ({"max_price_per_hour": Decimal("0.30")}, 3),
    ],
    ids=str,
)
def test_what_is_asked_for_must_fit(shop: World, asked: dict[str, object], count: int) -> None:
    assert len(search(shop, **asked)) == count


def test_offers_are_paged(shop: World) -> None:
    first = shop.roost.offers.search(shop.admin, OfferQuery(), 3, None)
    rest = shop.roost.offers.search(shop.admin, OfferQuery(), 3, first.next)
    assert len({o.id for o in (*first.items, *rest.items)}) == 5
    assert rest.next is None
    with pytest.raises(InvalidError):
        shop.roost.offers.search(shop.admin, OfferQuery(), 3, "nonsense")


def test_a_provider_that_is_silent_keeps_its_last_offers(shop: World) -> None:
    shop.cloud.fail_next("list", ThrottledError("slowly"))
    shop.tick(1)
    assert len(search(shop)) == 5


def test_prices_follow_the_provider(shop: World) -> None:
    shop.cloud.set_price("fake/r/a/small/spot", Decimal("0.99"))
    shop.tick(1)
    assert search(shop, mode=SPOT)[0].price_per_hour == Decimal("0.99")


def test_the_last_word_of_each_provider_counts() -> None:
    catalogue = Catalogue()
    assert catalogue.all() == ()
    catalogue.update("fake", OFFERS)
    catalogue.update("zeta", [offer(provider="zeta")])
    catalogue.update("fake", OFFERS[:1])
    assert [o.provider for o in catalogue.all()] == ["fake", "zeta"]
