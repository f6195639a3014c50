"""Charges: exact sums however they are cut, the price in force, unknown stays unknown."""

from __future__ import annotations

import itertools
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.errors import CostError, CurrencyMismatch
from cost.ledger import (
    PricingCategory,
    Resource,
    ResourceKind,
    add,
    charge,
    clip,
    total,
    unique,
)
from cost.periods import day_start, days, local_date, period_bounds
from cost.prices import PriceBook, PricePoint
from cost.usage import UsageInterval

T0 = datetime(2026, 6, 1, tzinfo=UTC)
ZONES = ["Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Berlin", "America/St_Johns"]

MACHINE = Resource(
    "i-1", ResourceKind.INSTANCE, "m", "aws", "r", "z", "t", "spot", "job", "j", "j", "team", "ada"
)


def span(start: datetime, **length: float) -> UsageInterval:
    return UsageInterval("i-1", start, start + timedelta(**length))


def test_a_day_at_ten_cents_costs_two_dollars_forty_exactly(machine, flat_price):
    charges = charge([span(T0, hours=24)], machine(), flat_price("0.10"))
    assert len(charges) == 24
    assert total(charges) == Decimal("2.40")
    assert add(c.hours for c in charges) == 24


def test_ten_times_ten_cents_is_one(machine, flat_price):
    charges = [
        c
        for n in range(10)
        for c in charge([span(T0 + timedelta(days=n), hours=1)], machine(), flat_price("0.10"))
    ]
    assert total(charges) == Decimal("1.00")


def test_spot_is_charged_at_the_price_in_force_in_each_part(machine):
    prices = PriceBook.of(
        {
            "i-1": [
                PricePoint(T0 + timedelta(minutes=90), Decimal("0.50"), "USD"),
                PricePoint(T0 - timedelta(days=1), Decimal("0.20"), "USD"),
            ]
        }
    )
    charges = charge([span(T0, hours=3)], machine(), prices)
    assert total(charges) == Decimal("0.20") * Decimal("1.5") + Decimal("0.50") * Decimal("1.5")
    assert {c.contracted_unit_price for c in charges} == {Decimal("0.20"), Decimal("0.50")}
    assert add(c.list_cost for c in charges) == Decimal("3.018")
    assert charges[0].pricing_category is PricingCategory.DYNAMIC


def test_a_resize_joins_two_prices_without_changing_the_time(machine):
    prices = PriceBook.of(
        {
            "i-1": [
                PricePoint(T0, Decimal(1), "USD"),
                PricePoint(T0 + timedelta(hours=2), Decimal(3), "USD"),
            ]
        }
    )
    charges = charge([span(T0, hours=5)], machine(mode="on-demand"), prices)
    assert all(a.charge_period_end == b.charge_period_start for a, b in itertools.pairwise(charges))
    assert add(c.hours for c in charges) == 5
    assert total(charges) == 2 * 1 + 3 * 3
    assert all(c.list_cost == c.billed_cost for c in charges)


def test_an_unknown_price_is_unknown_and_zero_is_a_price(machine, flat_price):
    late = PriceBook.of({"i-1": [PricePoint(T0 + timedelta(hours=1), Decimal(2), "USD")]})
    charges = charge([span(T0, hours=2)], machine(), late)
    assert [c.billed_cost for c in charges] == [None, Decimal(2)]
    assert charges[0].effective_cost is None
    assert charge([span(T0, hours=1)], machine(), flat_price(None))[0].billed_cost is None
    assert charge([span(T0, hours=1)], machine(), flat_price("0"))[0].billed_cost == 0


def test_an_unknown_on_demand_price_is_no_list_cost(machine, flat_price):
    (only,) = charge([span(T0, hours=1)], machine(on_demand_price_per_hour=None), flat_price("0.3"))
    assert only.list_cost is None


def test_a_volume_is_charged_while_the_machine_is_stopped(machine, flat_price):
    disk = machine(id="v-1", kind=ResourceKind.VOLUME, mode="on-demand", size_gib=Decimal(100))
    prices = flat_price("0.08", "v-1", "i-1")
    month = UsageInterval("v-1", T0, T0 + timedelta(hours=730))
    stored = charge([month], disk, prices)
    assert total(stored) == Decimal("8.00")
    assert stored[0].pricing_unit == "GiB-Months"
    assert stored[0].pricing_category is PricingCategory.STANDARD
    assert add(c.pricing_quantity for c in stored) == 100
    running = charge([span(T0, hours=1)], machine(), prices)
    after = T0 + timedelta(hours=2), T0 + timedelta(hours=3)
    assert total(clip([*running, *stored], *after)) == total(clip(stored, *after)) > 0


def test_what_lived_only_last_month_costs_nothing_this_month(machine, flat_price):
    charges = charge([span(T0 - timedelta(days=3), days=3)], machine(), flat_price("1"))
    june = period_bounds(T0, "UTC")
    assert clip(charges, june.start, june.end) == ()
    assert total(charges) == 72


def test_a_resource_selected_twice_counts_once(machine, flat_price):
    by_tag = charge([span(T0, hours=5)], machine(), flat_price("1"))
    assert total(unique([*by_tag, *by_tag[2:], *by_tag])) == 5


def test_deriving_again_gives_identical_charges(machine, flat_price):
    runs = {charge([span(T0, hours=5)], machine(), flat_price("1.1"), ZONES) for _ in range(3)}
    assert len(runs) == 1


def test_two_currencies_are_never_added(machine, flat_price):
    dollars = charge([span(T0, hours=1)], machine(), flat_price("1"))
    yen = charge([span(T0, hours=1)], machine(), flat_price("20", currency="JPY"))
    with pytest.raises(CurrencyMismatch, match="JPY and USD"):
        total([*dollars, *yen])


def test_contradicting_and_negative_prices_are_refused():
    with pytest.raises(CostError, match="two prices"):
        PriceBook.of({"i-1": [PricePoint(T0, Decimal(1), "USD"), PricePoint(T0, None, "USD")]})
    with pytest.raises(CostError, match="at least 0"):
        PriceBook.of({"i-1": [PricePoint(T0, Decimal(-1), "USD")]})


def test_charges_never_cross_an_hour_or_a_midnight_of_the_zones(machine, flat_price):
    charges = charge([span(T0, days=3)], machine(), flat_price("1"), ZONES)
    for c in charges:
        last = c.charge_period_end - timedelta(microseconds=1)
        assert last.replace(minute=0, second=0, microsecond=0) <= c.charge_period_start
        assert all(local_date(c.charge_period_start, z) == local_date(last, z) for z in ZONES)


@pytest.mark.parametrize("tz", [*ZONES, "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("month", [3, 4, 10])
def test_single_days_sum_to_the_range_in_every_zone(machine, flat_price, tz, month):
    bounds = period_bounds(datetime(2026, month, 15, tzinfo=UTC), tz)
    run = UsageInterval(
        "i-1", bounds.start - timedelta(hours=7.3), bounds.end + timedelta(hours=9.1)
    )
    charges = charge([run], machine(), flat_price("0.0734917"))  # Cut at UTC hours only.
    whole = total(clip(charges, bounds.start, bounds.end))
    assert add(total(clip(charges, d.start, d.end)) for d in days(bounds, tz)) == whole
    seconds = Decimal((bounds.end - bounds.start) // timedelta(seconds=1))
    assert abs(whole - seconds * Decimal("0.0734917") / 3600) < Decimal("1e-12")
    assert add(c.hours for c in clip(charges, bounds.start, bounds.end)) == seconds / 3600


PRICES = st.decimals("0", "99.9999999999", places=10, allow_nan=False, allow_infinity=False)
MOMENTS = st.integers(0, 200_000_000_000).map(lambda us: T0 + timedelta(microseconds=us))


@given(PRICES, st.lists(MOMENTS, min_size=2, max_size=12, unique=True))
def test_any_cut_of_an_interval_sums_to_the_whole_exactly(price, moments):
    moments = sorted(moments)
    prices = PriceBook.of({"i-1": [PricePoint(T0, price, "USD")]})
    whole = charge([UsageInterval("i-1", moments[0], moments[-1])], MACHINE, prices)
    parts = [UsageInterval("i-1", a, b) for a, b in itertools.pairwise(moments)]
    pieces = charge(parts, MACHINE, prices, ZONES)
    assert total(pieces) == total(whole)
    assert add(c.pricing_quantity for c in pieces) == add(c.pricing_quantity for c in whole)
    clipped = [total(clip(whole, p.start, p.end)) for p in parts]
    assert add(clipped) == total(whole)


@given(PRICES, st.lists(st.integers(1, 40_000), min_size=1, max_size=20), st.integers(0, 3_600))
def test_the_sum_equals_a_bill_of_whole_seconds_times_price(price, lengths_s, offset_s):
    prices = PriceBook.of({"i-1": [PricePoint(T0, price, "USD")]})
    start = T0 + timedelta(seconds=offset_s)
    runs = []
    for length_s in lengths_s:
        runs.append(UsageInterval("i-1", start, start + timedelta(seconds=length_s)))
        start = runs[-1].end + timedelta(seconds=17)
    bill = sum(lengths_s) * price / 3600
    assert abs(total(charge(runs, MACHINE, prices, ZONES)) - bill) <= len(runs) * Decimal("1e-12")


def test_the_caller_decimal_context_does_not_matter(machine, flat_price):
    with localcontext() as context:
        context.prec = 4
        charges = charge([span(T0, days=30)], machine(), flat_price("1.2345678901"))
        assert total(charges) == Decimal("888.888880872")


def test_the_ledger_loads_no_data_frames_and_no_drawing():
    code = (
        "import sys, cost.ledger, cost.usage, cost.prices, cost.focus, cost.budgets, cost.savings;"
        "sys.exit(bool({'pandas', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_day_start_is_what_the_days_are_cut_at(machine, flat_price):
    charges = charge([span(T0, days=2)], machine(), flat_price("1"), ["Asia/Kathmandu"])
    edge = day_start(local_date(T0, "Asia/Kathmandu") + timedelta(days=1), "Asia/Kathmandu")
    assert edge in {c.charge_period_start for c in charges}
