"""Of a hundred thousand offers, those that a decision looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from policies.loading import load_policy
from policies.world import Cooldown, InstanceState, Needs, Offer, PurchaseMode, Resources
from provisioner.errors import RefusedError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.market import BARRED, OPEN, WHOLE, Market, Request
from tests.provisioner.world import ON_DEMAND, SPOT, START, World, offer

GPUS = Needs(Resources(1, 1, 8, "H100"))


def many(count: int, region: str = "r", mode: PurchaseMode = SPOT, gpus: int = 8) -> list[Offer]:
    """Offers of machines with GPUs, each dearer than the one before."""
    has = Resources(96, 1024, gpus, "H100")
    return [
        replace(
            offer(f"z{n}", mode, str(Decimal(20) + Decimal(n) / 1000)),
            id=f"fake/{region}/z{n}/small/{mode}",
            region=region,
            resources=has,
        )
        for n in range(count)
    ]


def market(*offers: Offer) -> Market:
    catalogue = Catalogue()
    catalogue.update("fake", offers)
    return Market(catalogue)


def shortlisted(shop: Market, *cooled: Cooldown, request: Request | None = None) -> list[str]:
    request = request or Request(GPUS, ())
    offers, total = shop.shortlist([request], shop.barriers(cooled, START))
    assert total == len(shop.catalogue)
    return [one.id for one in offers]


def test_a_small_catalogue_is_looked_at_whole() -> None:
    offers, total = market(*many(WHOLE)).shortlist([], Market(Catalogue()).barriers((), START))
    assert (len(offers), total) == (WHOLE, None)


def test_of_a_large_one_the_cheapest_of_each_mode_that_fit() -> None:
    shop = market(*many(WHOLE), *many(WHOLE, mode=ON_DEMAND), *many(50, region="small", gpus=4))
    found = shortlisted(shop)
    assert len(found) == 2 * OPEN
    assert found[0] == "fake/r/z0/small/on-demand"
    assert not any("small/z" in one for one in found)


def test_what_cannot_be_had_now_gives_way_to_what_can() -> None:
    shop = market(*many(WHOLE + 1))
    cooled = [Cooldown(f"fake/r/z{n}", START.replace(year=2030), "no room") for n in range(60)]
    found = shortlisted(shop, *cooled)
    assert len(found) == BARRED + OPEN
    assert f"fake/r/z{60 + OPEN - 1}/small/spot" in found


def test_a_policy_that_allows_a_dear_region_alone_is_served_from_there() -> None:
    text = "policy: here\nversion: 1\nallow:\n  regions: [far]\n"
    shop = market(*many(WHOLE), *[replace(o, price_per_hour=Decimal(99)) for o in many(5, "far")])
    request = Request(GPUS, (load_policy(text, "here.yaml"),))
    found = shortlisted(shop, request=request)
    assert sum(one.startswith("fake/far/") for one in found) == 5
    assert any(one.startswith("fake/r/") for one in found), "some of the refused, for their reason"


def test_a_request_is_looked_up_again_when_prices_change() -> None:
    shop = market(*many(WHOLE + 1))
    before = shortlisted(shop)
    dear = [replace(one, price_per_hour=Decimal(99)) for one in many(1)]
    shop.catalogue.update("fake", [*dear, *many(WHOLE + 1)[1:]])
    assert before[0] == "fake/r/z0/small/spot"
    assert shortlisted(shop)[0] == "fake/r/z1/small/spot"


def test_a_job_gets_the_cheapest_of_a_large_catalogue(make_world: Callable[..., World]) -> None:
    world = make_world(clouds={"fake": [*many(WHOLE + 500), offer("a", ON_DEMAND, "0.30")]})
    job = world.submit(gpus=8, gpu_model="H100")
    world.tick_until(lambda: world.state(job) is InstanceState.READY)
    assert world.row(job).offer.id == "fake/r/z0/small/spot"
    (explained, *_) = world.roost.policies.explain(world.admin, job)
    assert world.roost.policies.replay(world.admin, explained.snapshot_id).identical


def test_what_nobody_sells_is_refused_with_the_number_of_offers(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clouds={"fake": many(WHOLE + 500)})
    with pytest.raises(RefusedError, match=f"none of {WHOLE + 500} offers has what is asked for"):
        world.submit(gpus=16, gpu_model="H100")
