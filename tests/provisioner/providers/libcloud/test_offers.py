"""What is offered at which price (P12)."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from policies.world import PurchaseMode
from provisioner.clock import ManualClock
from provisioner.errors import ProviderError
from provisioner.providers.contract import PricePoint, Rates
from provisioner.providers.libcloud.provider import LibcloudProvider
from tests.provisioner.providers.libcloud.conftest import NOW
from tests.provisioner.providers.libcloud.paper_cloud import Sheet, settings

HOUR = timedelta(hours=1)
DEMAND, SPOT = PurchaseMode.ON_DEMAND, PurchaseMode.SPOT


class Book:
    """Knows one price, and one that is none."""

    def price(self, region: str, instance_type: str, mode: PurchaseMode) -> PricePoint | None:
        known = {("r1", SPOT): Decimal("0.02"), ("r2", SPOT): Decimal(0)}
        price = known.get((region, mode))
        return None if price is None else PricePoint(NOW - HOUR, price, "EUR")

    def rates(self, region: str) -> Rates:
        return Rates(egress_gib=PricePoint(NOW, Decimal("0.09"), "USD"))


def prices(provider: LibcloudProvider) -> dict[str, tuple[Decimal, str]]:
    return {one.id: (one.price_per_hour, one.currency) for one in provider.offers()}


def test_settings_outrank_the_book_and_the_book_outranks_the_api(
    sheet: Sheet, clock: ManualClock
) -> None:
    provider = LibcloudProvider(
        settings(prices={"large": "0.40"}, spot_prices={}, regions=("r1",)), "test", clock, Book()
    )
    found = prices(provider)
    assert found["paper/r1/r1a/large/on-demand"] == (Decimal("0.40"), "USD")
    assert found["paper/r1/r1a/small/on-demand"] == (Decimal("0.10"), "USD")
    assert found["paper/r1/r1b/small/spot"] == (Decimal("0.02"), "EUR")


def test_what_has_no_price_is_not_offered(sheet: Sheet, clock: ManualClock) -> None:
    provider = LibcloudProvider(settings(prices={}, spot_prices={}), "test", clock, Book())
    found = prices(provider)
    assert {id for id in found if "large/on-demand" in id} == set()
    assert {id for id in found if id.startswith("paper/r2") and "spot" in id} == set()
    assert all(price > 0 for price, _ in found.values())


def test_types_can_be_left_out(sheet: Sheet, clock: ManualClock) -> None:
    provider = LibcloudProvider(settings(types=("la*",)), "test", clock)
    assert {one.instance_type for one in provider.offers()} == {"large"}


def test_sizes_are_asked_for_once_an_hour(
    provider: LibcloudProvider, sheet: Sheet, clock: ManualClock
) -> None:
    for _ in range(3):
        list(provider.offers())
    assert sheet.count("sizes") == 2  # one for each region
    clock.set(NOW + HOUR)
    list(provider.offers())
    assert sheet.count("sizes") == 4


def test_a_silent_region_offers_nothing_and_hides_no_other(
    provider: LibcloudProvider, sheet: Sheet
) -> None:
    sheet.silent.add("r1")
    assert {one.region for one in provider.offers()} == {"r2"}
    sheet.silent.clear()
    assert {one.region for one in provider.offers()} == {"r1", "r2"}  # that was not kept


def test_no_region_that_answers_is_an_error(provider: LibcloudProvider, sheet: Sheet) -> None:
    sheet.silent |= {"r1", "r2"}
    with pytest.raises(ProviderError, match="silent"):
        list(provider.offers())


@pytest.mark.parametrize("start", [NOW - timedelta(days=400), NOW - timedelta(minutes=1)])
def test_prices_cover_any_span(sheet: Sheet, clock: ManualClock, start: datetime) -> None:
    provider = LibcloudProvider(settings(spot_prices={}), "test", clock, Book())
    for instance_type, mode, price in (
        ("large", DEMAND, Decimal("0.40")),
        ("small", DEMAND, Decimal("0.10")),
        ("small", SPOT, Decimal("0.02")),
    ):
        (point,) = provider.prices(instance_type, "r1a", mode, start, NOW)
        assert (point.at <= start, point.price) == (True, price)
    assert provider.prices("large", "r2a", SPOT, start, NOW) == ()
    assert provider.prices("unknown", "r1a", DEMAND, start, NOW) == ()


def test_the_price_of_storage_is_the_settings_and_the_rest_the_books(
    sheet: Sheet, clock: ManualClock
) -> None:
    provider = LibcloudProvider(settings(), "test", clock, Book())
    rates = provider.rates()
    assert rates.volume_gib_month is not None
    assert (rates.volume_gib_month.price, rates.snapshot_gib_month) == (Decimal("0.08"), None)
    assert rates.egress_gib is not None
    unknown = LibcloudProvider(settings(price_per_gib_month=None), "test", clock)
    assert unknown.rates() == Rates()
