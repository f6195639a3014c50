"""What is found, in which order, and what is said of it; the same as a look at each offer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.placement import by_price, misfit
from policies.world import Needs, Offer, PurchaseMode, Resources
from provisioner.errors import InvalidError, ThrottledError
from provisioner.offers.asking import Asked, search_of
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.columns import Columns, Words
from provisioner.offers.search import Found, Order
from provisioner.providers.contract import PricePoint, Rates
from tests.provisioner.world import ON_DEMAND, SPOT, START, World, offer

GPU = Resources(8, 64, 2, "H100")
PRICES = {"near": "0.30", "far": "0.20", "euro": "0.10", "silent": "0.15"}
OFFERS = [
    offer("a", SPOT, "0.10"),
    offer("b", ON_DEMAND, "0.30"),
    offer("a", ON_DEMAND, "0.30"),
    replace(offer("a", ON_DEMAND, "9.00", kind="gpu"), resources=GPU),
    replace(offer("c", ON_DEMAND, "0.50"), id="fake/us-east/c/small/on-demand", region="us-east"),
]


def found(world: World, **asked: object) -> list[Found]:
    search = search_of(Asked(**asked))  # type: ignore[arg-type]
    return list(world.roost.offers.search(world.admin, search, 50, None).items)


def search(world: World, **asked: object) -> list[Offer]:
    return [one.offer for one in found(world, **asked)]


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
        ({"cpus": "4+"}, 1),
        ({"cpus": "2"}, 4),
        ({"cpus": "1..4"}, 4),
        ({"memory_gib": "4+"}, 5),
        ({"memory_gib": "5+"}, 1),
        ({"gpu": "H100"}, 1),
        ({"gpu": "h100:2"}, 1),
        ({"gpu": "H100:1"}, 0),
        ({"gpu": "H100:3+"}, 0),
        ({"gpu_memory_gib": "80+"}, 1),
        ({"gpu_memory_gib": "81+"}, 0),
        ({"mode": SPOT}, 1),
        ({"region": "us-*"}, 1),
        ({"region": "r"}, 4),
        ({"region": "r,us-east"}, 5),
        ({"zone": "a"}, 3),
        ({"type": "sm*"}, 4),
        ({"provider": "fake"}, 5),
        ({"max_price_per_hour": Decimal("0.30")}, 3),
    ],
    ids=str,
)
def test_what_is_asked_for_must_fit(shop: World, asked: dict[str, object], count: int) -> None:
    assert len(search(shop, **asked)) == count


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"gpu": "H10"}, "Did you mean H100"),
        ({"region": "us-eats"}, "Did you mean us-east"),
        ({"provider": "aws"}, "Known are: fake"),
        ({"cpus": "many"}, "Write 32+, 4..8 or 8"),
        ({"gpu": ":8"}, "Write A100:8"),
        ({"gpu": "A100:lots"}, "Write A100:8"),
        ({"throughput": "A100"}, "Write A100=100"),
        ({"throughput": "A100=nan"}, "Write A100=100"),
    ],
    ids=str,
)
def test_a_slip_is_told_and_not_answered_with_nothing(
    shop: World, asked: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        search(shop, **asked)
    assert told in str(caught.value)


def test_offers_are_paged(shop: World) -> None:
    first = shop.roost.offers.search(shop.admin, search_of(Asked()), 3, None)
    rest = shop.roost.offers.search(shop.admin, search_of(Asked()), 3, first.next)
    assert len({one.offer.id for one in (*first.items, *rest.items)}) == 5
    assert rest.next is None
    with pytest.raises(InvalidError):
        shop.roost.offers.search(shop.admin, search_of(Asked()), 3, "nonsense")


def test_a_provider_that_is_silent_keeps_its_last_offers(shop: World) -> None:
    shop.cloud.fail_next("list", ThrottledError("slowly"))
    shop.tick(1)
    assert len(search(shop)) == 5


def test_prices_follow_the_provider(shop: World) -> None:
    shop.cloud.set_price("fake/r/a/small/spot", Decimal("0.29"))
    shop.tick(1)
    assert search(shop, mode=SPOT)[0].price_per_hour == Decimal("0.29")


def test_the_last_word_of_each_provider_counts() -> None:
    catalogue = Catalogue()
    assert catalogue.all() == ()
    catalogue.update("fake", OFFERS)
    catalogue.update("zeta", [offer(provider="zeta")])
    catalogue.update("fake", OFFERS[:1])
    assert [o.provider for o in catalogue.all()] == ["fake", "zeta"]


# ---- order


def with_gpus(model: str, count: int, price: str, zone: str = "a") -> Offer:
    kind = f"{model}x{count}".lower()
    return replace(
        offer(zone, ON_DEMAND, price, kind=kind), resources=Resources(8, 64, count, model)
    )


@pytest.fixture
def gpus(make_world: Callable[..., World]) -> World:
    return make_world(
        clouds={
            "fake": [
                with_gpus("A100", 8, "16.00"),
                with_gpus("H100", 8, "32.00"),
                with_gpus("L4", 1, "0.80"),
                with_gpus("X9", 1, "0.50"),
            ]
        }
    )


def models(world: World, **asked: object) -> list[str | None]:
    return [one.offer.resources.gpu_model for one in found(world, **asked)]


def test_by_price_by_gpu_and_by_work(gpus: World) -> None:
    assert models(gpus) == ["X9", "L4", "A100", "H100"]
    assert models(gpus, order=Order.PRICE_PER_GPU) == ["X9", "L4", "A100", "H100"]
    # 4/989, 2/312, 0.8/121 USD for a TFLOP/s and hour; nobody knows what an X9 does.
    assert models(gpus, order=Order.PRICE_PER_WORK) == ["H100", "A100", "L4", "X9"]
    assert found(gpus, gpu="X9")[0].price_per_work is None


def test_measured_work_takes_the_place_of_the_data_sheet(gpus: World) -> None:
    measured = {"order": Order.PRICE_PER_WORK, "throughput": "A100=100,H100=150"}
    assert models(gpus, gpu="A100,H100", **measured) == ["A100", "H100"]
    (best, _) = found(gpus, gpu="A100,H100", **measured)
    assert best.price_per_work == Decimal("0.02")


def test_gpus_in_the_order_of_the_wish(gpus: World) -> None:
    assert models(gpus, gpu="H100:8,L4,A100:8", in_order_of_gpus=True) == ["H100", "L4", "A100"]


def test_what_fits_two_wishes_is_found_once(gpus: World) -> None:
    asked = {"gpu": "A100:8,H100:8,A100:1+", "in_order_of_gpus": True}
    assert models(gpus, **asked) == ["A100", "H100"]


def test_values_compare_within_a_currency(make_world: Callable[..., World]) -> None:
    sold = [with_gpus("A100", 1, "3.00"), with_gpus("A100", 2, "2.00"), with_gpus("L4", 1, "1.00")]
    sold += [replace(with_gpus("A100", 1, "0.10", zone="b"), currency="EUR")]
    world = make_world(clouds={"fake": sold})
    prices = [
        (one.offer.currency, one.price_per_gpu_hour)
        for one in found(world, gpu="A100", order=Order.PRICE_PER_GPU)
    ]
    assert prices == [("EUR", Decimal("0.10")), ("USD", 1), ("USD", 3)]


# ---- what it comes to


def test_disk_address_and_egress_at_the_providers_rates(gpus: World) -> None:
    def at(price: str) -> PricePoint:
        return PricePoint(START, Decimal(price), "USD")

    asked = {"gpu": "L4", "disk_gib": 730.0, "address": True, "egress_gib_per_hour": 2.0}
    (one,) = found(gpus, **asked)
    assert (one.beside_per_hour, one.total_per_hour) == (None, None), "unknown is not 0"
    gpus.roost.market.rates["fake"] = Rates(at("0.10"), None, at("0.005"), at("0.09"))
    (one,) = found(gpus, **asked)
    assert one.beside_per_hour == Decimal("0.285")
    assert one.total_per_hour == Decimal("1.085")
    assert found(gpus, gpu="L4")[0].total_per_hour is None
    gpus.roost.market.rates["fake"] = Rates(at("0.10"), None, at("0.005"))
    assert found(gpus, **asked)[0].beside_per_hour is None, "a part of it is unknown"


def test_what_comes_first_is_cheapest_with_its_disk(make_world: Callable[..., World]) -> None:
    sold = {name: [offer(provider=name, price=price)] for name, price in PRICES.items()}
    world = make_world(clouds=sold)
    for name, rate in (("near", "0.73"), ("far", "7.30")):
        world.roost.market.rates[name] = Rates(PricePoint(START, Decimal(rate), "USD"))
    world.roost.market.rates["euro"] = Rates(PricePoint(START, Decimal("0.01"), "EUR"))
    found_ = found(world, disk_gib=100.0)
    assert [(one.offer.provider, one.total_per_hour) for one in found_] == [
        ("near", Decimal("0.40")),
        ("far", Decimal("1.20")),
        ("euro", None),
        ("silent", None),
    ]
    assert [one.offer.provider for one in found(world)] == ["euro", "silent", "far", "near"]


def test_how_often_spot_is_taken_back_where_that_is_known(shop: World) -> None:
    shop.roost.market.interruptions["fake", "r", "small"] = 0.05
    assert [one.interruption_rate for one in found(shop, mode=SPOT)] == [0.05]
    assert {one.interruption_rate for one in found(shop, mode=ON_DEMAND)} == {None}


def test_old_offers_are_said_to_be_stale(shop: World) -> None:
    assert not found(shop)[0].stale
    shop.clock.set(shop.now + timedelta(days=2))
    assert found(shop)[0].stale
    assert shop.roost.offers.sources(shop.admin)[0].stale


# ---- why not


def test_why_other_offers_do_not_fit(shop: World) -> None:
    asked = search_of(Asked(mode=ON_DEMAND, region="r", cpus="4+"))
    told = {one.because: one for one in shop.roost.offers.explain(shop.admin, asked)}
    assert {name: one.count for name, one in told.items()} == {"mode": 1, "region": 1, "cpus": 2}
    assert told["cpus"].example.price_per_hour == Decimal("0.30")


def test_what_would_do_and_is_not_sold_here_is_told(shop: World) -> None:
    other = replace(offer("x", SPOT, "0.01"), id="else/r/x/small/spot", provider="else")
    shop.roost.catalogue.update_columns("prices.csv", Columns.of([other]), START)
    told = shop.roost.offers.explain(shop.admin, search_of(Asked(mode=SPOT)))
    assert [(one.because, one.count) for one in told] == [("mode", 4), ("not_sold_here", 1)]
    with pytest.raises(InvalidError, match="set up here sells the provider 'else'"):
        search(shop, provider="else")
    with pytest.raises(InvalidError, match="Did you mean"):
        shop.roost.offers.explain(shop.admin, search_of(Asked(region="us-eats")))


def test_architecture_where_it_is_known(shop: World) -> None:
    columns = Columns.of([replace(one, provider="else") for one in OFFERS[:2]])
    told = replace(columns, arch=Words.of(["arm64", ""]))
    shop.roost.catalogue.update_columns("prices.csv", told, START)
    (one,) = found(shop, arch="aarch64", everything=True)
    assert (one.arch, one.source) == ("arm64", "prices.csv")
    assert found(shop)[0].arch is None


# ---- other sources


def test_what_no_provider_here_sells_is_searched_and_not_bought(shop: World) -> None:
    elsewhere = replace(offer("x", SPOT, "0.01"), id="else/r/x/small/spot", provider="else")
    shop.roost.catalogue.update_columns("prices.csv", Columns.of([elsewhere]), START)
    assert search(shop)[0].provider == "fake"
    first, *_ = found(shop, everything=True)
    assert (first.offer.id, first.buyable, first.source) == (elsewhere.id, False, "prices.csv")
    assert next(iter(shop.roost.catalogue.fitting(Needs(Resources(1, 1))))).provider == "fake"


# ---- the index against a look at each


NAMES = st.sampled_from(["r", "R-2", "r-2", "r2", "ra"])


@st.composite
def offers(draw: st.DrawFn) -> list[Offer]:
    made = {}
    for _ in range(draw(st.integers(0, 12))):
        gpus = draw(st.integers(0, 2))
        has = Resources(
            draw(st.sampled_from([1.0, 2.0, 8.0])),
            draw(st.sampled_from([0.5, 4.0, 64.0])),
            gpus,
            draw(st.sampled_from(["L4", "A100", "T4g"])) if gpus else None,
        )
        mode = draw(st.sampled_from([ON_DEMAND, SPOT]))
        region, zone, kind = draw(NAMES), draw(NAMES), draw(NAMES)
        id = f"fake/{region}/{zone}/{kind}/{mode}"
        made[id] = Offer(
            id,
            "fake",
            region,
            zone,
            kind,
            mode,
            has,
            draw(st.sampled_from(["0", "0.1", "0.3", "1"]).map(Decimal)),
            draw(st.sampled_from(["USD", "EUR"])),
            True,
        )
    return list(made.values())


needs = st.builds(
    Needs,
    st.builds(
        Resources,
        st.sampled_from([0.0, 1.0, 2.0, 3.0]),
        st.sampled_from([0.0, 4.0]),
        st.integers(0, 2),
        st.sampled_from([None, "L4", "a100", "H100"]),
    ),
    mode=st.sampled_from([None, ON_DEMAND, SPOT]),
    provider=st.sampled_from([None, "fake", "other"]),
    region=st.sampled_from([None, "r", "r*", "*2"]),
    max_price_per_hour=st.sampled_from([None, Decimal("0.1"), Decimal(0)]),
    zone=st.sampled_from([None, "r", "R-2"]),
)


@given(offers(), needs)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_index_finds_what_a_look_at_each_finds(sold: list[Offer], asked: Needs) -> None:
    catalogue = Catalogue()
    catalogue.update("fake", sold, may_be_free=True)
    kept = catalogue.all()
    expected = [one for one in sorted(kept, key=by_price) if misfit(asked, one) is None]
    assert list(catalogue.fitting(asked)) == expected


@given(offers())
def test_the_order_is_that_of_placement(sold: list[Offer]) -> None:
    columns = Columns.of(sold)
    assert [columns.offer(int(row)) for row in columns.by_price()] == sorted(sold, key=by_price)


def test_the_same_machine_bought_otherwise() -> None:
    catalogue = Catalogue()
    catalogue.update("fake", OFFERS)
    spot = OFFERS[0]
    firm = catalogue.same(spot, ON_DEMAND)
    assert firm is not None
    assert (firm.zone, firm.mode) == ("a", PurchaseMode.ON_DEMAND)
    assert catalogue.same(firm, PurchaseMode.RESERVED) is None
