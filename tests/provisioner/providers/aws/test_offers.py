"""Offers and prices: what is sold where, at which price, and nothing whose price nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from policies.world import Offer, PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.gpus import canonical_gpu
from provisioner.providers.aws.instance_types import instance_type
from provisioner.providers.aws.provider import AwsProvider
from tests.provisioner.providers.aws.cloud import Cloud, Rule
from tests.provisioner.providers.aws.conftest import NOW, Make, offer, request
from tests.provisioner.providers.aws.prices import filters, paged, product, spot_history

SPOT, ON_DEMAND = PurchaseMode.SPOT, PurchaseMode.ON_DEMAND
TYPES = ("m5.lar*", "p4d.24xlarge", "p4de.24xlarge", "g6f.large", "g5g.xlarge", "mac1.metal")
MARKET = [
    (NOW - timedelta(days=40), "m5.large", "us-east-1a", Decimal("0.0400")),
    (NOW - timedelta(hours=20), "m5.large", "us-east-1a", Decimal("0.0300")),
    (NOW - timedelta(hours=10), "m5.large", "us-east-1a", Decimal("0.0500")),
    (NOW - timedelta(hours=1), "m5.large", "us-east-1a", Decimal("0.0350")),
    (NOW - timedelta(hours=2), "m5.large", "us-east-1b", Decimal("0.0450")),
    (NOW - timedelta(hours=2), "p4d.24xlarge", "us-east-1d", Decimal("11")),
    (NOW - timedelta(hours=2), "g6f.large", "us-east-1a", Decimal("0.1")),
]


def machine(name: str, price: str, **told: str) -> str:
    return product("Hrs", (0, price), instanceType=name, **told)


PAGES = [
    [machine("m5.large", "0.0960000000"), machine("m5.large", "0", marketoption="CapacityBlock")],
    [machine("p4d.24xlarge", "32.77"), machine("p4de.24xlarge", "0.0"), machine("g6f.large", "1")],
    [machine("g5g.xlarge", "0.42"), machine("mac1.metal", "1.083"), machine("x", "nan")],
]


@pytest.fixture
def market(cloud: Cloud) -> Cloud:
    """A cloud that tells prices."""
    cloud.always["GetProducts"] = lambda form: paged(
        form, PAGES if filters(form)["regionCode"] == "us-east-1" else [[]]
    )
    cloud.always["DescribeSpotPriceHistory"] = lambda form: spot_history(MARKET, form)
    return cloud


@pytest.fixture
def seller(make: Make, market: Cloud) -> AwsProvider:
    return make(types=TYPES)


def test_what_is_sold(seller: AwsProvider, market: Cloud) -> None:
    found = {one.id: one for one in seller.offers()}
    assert all(one.id == id for id, one in found.items())
    assert {one.instance_type for one in found.values()} == {
        "m5.large",
        "p4d.24xlarge",
        "g5g.xlarge",
    }
    plain = found[offer().id]
    assert (plain.price_per_hour, plain.currency) == (Decimal("0.096"), "USD")
    assert (plain.region, plain.zone, plain.mode) == ("us-east-1", "us-east-1a", ON_DEMAND)
    assert (plain.resources.cpus, plain.resources.memory_gib, plain.resources.gpus) == (2, 8, 0)
    assert plain.can_stop
    spot = found[offer(mode=SPOT).id]
    assert (spot.price_per_hour, spot.can_stop) == (Decimal("0.035"), False)
    assert found[offer(zone="us-east-1b", mode=SPOT).id].price_per_hour == Decimal("0.045")
    assert offer(zone="us-east-1c", mode=SPOT).id not in found  # no price, no offer
    (query,) = {tuple(sorted(filters(form).items())) for form in market.told("GetProducts")}
    assert dict(query)["capacitystatus"] == "Used"


def test_gpus_have_the_one_name_of_all_clouds(seller: AwsProvider) -> None:
    big = next(one for one in seller.offers() if one.instance_type == "p4d.24xlarge")
    assert (big.resources.gpus, big.resources.cpus) == (8, 96)
    assert big.resources.gpu_model == canonical_gpu("A100", 40)


def test_an_offer_can_be_bought(seller: AwsProvider) -> None:
    chosen = min(seller.offers(), key=lambda one: one.price_per_hour)
    assert seller.launch(request(offer=chosen)).offer_id == chosen.id


def test_what_does_not_change_is_asked_for_once_a_day_and_spot_every_five_minutes(
    seller: AwsProvider, market: Cloud, clock: ManualClock
) -> None:
    static = ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "GetProducts")

    def asked() -> tuple[int, int]:
        spot = len(market.told("DescribeSpotPriceHistory"))
        return sum(len(market.told(action)) for action in static), spot

    first = [one.id for one in seller.offers()]
    before = asked()
    assert [one.id for one in seller.offers()] == first
    assert asked() == before
    clock.set(clock.now() + timedelta(minutes=5))
    assert [one.id for one in seller.offers()] == first
    assert asked()[0] == before[0]
    assert asked()[1] > before[1]
    clock.set(clock.now() + timedelta(days=1))
    assert [one.id for one in seller.offers()] == first
    assert asked()[0] == 2 * before[0]


def test_a_region_that_does_not_answer_is_left_out(make: Make, market: Cloud) -> None:
    provider = make(types=TYPES, regions=("us-west-2", "us-east-1"))
    bad = (400, "text/xml", b"<x/>")
    market.rules.append(Rule("DescribeSubnets", "us-west-2", 100, lambda _: bad))
    assert {one.region for one in provider.offers()} == {"us-east-1"}
    market.rules.append(Rule("DescribeInstanceTypes", "us-west-2", 100, lambda _: bad))
    market.rules.append(Rule("DescribeSpotPriceHistory", None, 100, lambda _: bad))
    with pytest.raises(ProviderError):
        list(make(types=TYPES).offers())


def test_offers_come_one_by_one(make: Make, market: Cloud) -> None:
    provider = make(types=("m5.large",), regions=("us-east-1", "us-west-2"))
    first = next(iter(provider.offers()))
    assert isinstance(first, Offer)
    assert not any(call.region == "us-west-2" for call in market.calls)


@pytest.mark.parametrize("back_h", [0.5, 5, 15, 30])
def test_spot_prices_cover_the_span_and_no_more(seller: AwsProvider, back_h: float) -> None:
    start, end = NOW - timedelta(hours=back_h), NOW
    points = seller.prices("m5.large", "us-east-1a", SPOT, start, end)
    expected = [row for row in MARKET if row[1:3] == ("m5.large", "us-east-1a")]
    first = max(row[0] for row in expected if row[0] <= start)
    assert [(p.at, p.price) for p in points] == [(r[0], r[3]) for r in expected if r[0] >= first]
    assert {point.currency for point in points} == {"USD"}


def test_the_price_of_now_is_that_of_the_offer(seller: AwsProvider) -> None:
    start, end = NOW - timedelta(hours=30), NOW + timedelta(microseconds=1)
    prices = {one.id: one.price_per_hour for one in seller.offers()}
    for mode in (ON_DEMAND, SPOT):
        points = seller.prices("m5.large", "us-east-1a", mode, start, end)
        assert points[0].at <= start
        assert points[-1].price == prices[offer(mode=mode).id]


def test_the_price_on_demand_counts_for_the_whole_span(seller: AwsProvider) -> None:
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    (point,) = seller.prices("m5.large", "us-east-1a", ON_DEMAND, long_ago, NOW)
    assert (point.at, point.price) == (long_ago, Decimal("0.096"))
    (point,) = seller.prices("m5.large", "us-east-1a", ON_DEMAND, NOW - timedelta(hours=1), NOW)
    assert point.at == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "zone", "mode"),
    [
        ("m5.huge", "us-east-1a", ON_DEMAND),
        ("p4de.24xlarge", "us-east-1a", ON_DEMAND),
        ("m5.large", "us-east-1c", SPOT),
        ("m5.large", "eu-west-1a", ON_DEMAND),
    ],
)
def test_what_is_not_sold_has_no_price(
    seller: AwsProvider, name: str, zone: str, mode: PurchaseMode
) -> None:
    with pytest.raises(InvalidRequest):
        seller.prices(name, zone, mode, NOW - timedelta(hours=1), NOW)


def test_rates_are_those_of_the_price_list(provider: AwsProvider, cloud: Cloud) -> None:
    told = {
        "volumeApiName": [product("GB-Mo", (0, "0.08"), usagetype="EBS:VolumeUsage.gp3")],
        "productFamily": [
            product("GB-Mo", (0, "0.0125"), usagetype="EBS:SnapshotArchiveStorage"),
            product("GB-Mo", (0, "0.05"), usagetype="USE2-EBS:SnapshotUsage"),
        ],
        "group": [product("Hrs", (0, "0.005"), usagetype="PublicIPv4:InUseAddress")],
        "transferType": [
            product(
                "GB", (10240, "0.085"), (0, "0.09"), (0, "0"), usagetype="DataTransfer-Out-Bytes"
            )
        ],
    }
    cloud.always["GetProducts"] = lambda form: paged(
        form, [next(rows for field, rows in told.items() if field in filters(form))]
    )
    rates = provider.rates()
    points = (
        rates.volume_gib_month,
        rates.snapshot_gib_month,
        rates.address_hour,
        rates.egress_gib,
    )
    assert [str(point and point.price) for point in points] == ["0.08", "0.05", "0.005", "0.09"]


def test_rates_that_nobody_tells_are_unknown_and_not_free(
    provider: AwsProvider, cloud: Cloud
) -> None:
    cloud.always["GetProducts"] = lambda form: paged(form, [[product("GB-Mo", (0, "0"))]])
    rates = provider.rates()
    assert (rates.volume_gib_month, rates.snapshot_gib_month) == (None, None)
    assert (rates.address_hour, rates.egress_gib) == (None, None)


def test_a_type_that_boots_no_disk_of_ours_is_none() -> None:
    told = {
        "InstanceType": "old.large",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "SupportedUsageClasses": ["on-demand"],
        "SupportedRootDeviceTypes": ["instance-store"],
        "VCpuInfo": {"DefaultVCpus": 1},
        "MemoryInfo": {"SizeInMiB": 1024},
    }
    assert instance_type(told) is None
    both = instance_type({**told, "SupportedRootDeviceTypes": ["instance-store", "ebs"]})
    assert both is not None
    assert both.modes == {ON_DEMAND}
