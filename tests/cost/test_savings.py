"""Savings and breakdowns: everything adds up, to the last digit and as shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.errors import TotalMismatch
from cost.ledger import ResourceKind, add, charge, total
from cost.savings import Dimension, breakdown, cost_by, round_to_total, spot_savings
from cost.usage import UsageInterval

T0 = datetime(2026, 3, 28, 5, tzinfo=UTC)


def run(length_h: float, resource_id: str = "i-1", start: datetime = T0) -> list[UsageInterval]:
    return [UsageInterval(resource_id, start, start + timedelta(hours=length_h))]


@pytest.fixture
def fleet(machine, flat_price):
    """A job of two attempts, a desk on demand, its disk, and a machine without a price."""
    prices = flat_price("0.4", "i-1", "i-2", "i-3", "v-1")
    desk = machine(id="i-3", mode="on-demand", owner_kind="workstation", owner_id="ws-1", user="bo")
    disk = machine(
        id="v-1",
        kind=ResourceKind.VOLUME,
        mode="on-demand",
        owner_kind="workstation",
        owner_id="ws-1",
        size_gib=Decimal(10),
    )
    odd = machine(id="i-4", owner_id="job-2", owner_name="odd", user="eve")
    return [
        *charge(run(2), machine(), prices),
        *charge(run(3, "i-2", T0 + timedelta(hours=5)), machine(id="i-2"), prices),
        *charge(run(50, "i-3"), desk, prices),
        *charge(run(73, "v-1"), disk, prices),
        *charge(run(1, "i-4"), odd, flat_price(None, "i-4")),
    ]


def test_a_jobs_cost_adds_all_its_attempts(fleet):
    assert cost_by(fleet, Dimension.JOB)["job-1"] == Decimal("2.0")
    assert cost_by(fleet, Dimension.WORKSTATION)["ws-1"] == 20 + Decimal("0.4")


@pytest.mark.parametrize("dimension", list(Dimension))
def test_every_breakdown_adds_up_to_the_total(fleet, dimension):
    assert add(cost_by(fleet, dimension, "Asia/Kathmandu").values()) == total(fleet)


def test_days_are_local_and_a_spring_day_has_23_hours(fleet):
    lines = {x.key: x for x in breakdown(fleet, Dimension.DAY, "Europe/Berlin")}
    assert list(lines) == ["2026-03-28", "2026-03-29", "2026-03-30", "2026-03-31"]
    assert lines["2026-03-29"].hours == 23
    assert lines["2026-03-28"].unpriced_hours == 1


def test_modes_tell_spot_on_demand_and_storage_apart(fleet):
    assert cost_by(fleet, Dimension.MODE) == {
        "spot": Decimal("2.0"),
        "on-demand": Decimal(20),
        "storage": Decimal("0.4"),
    }


def test_a_line_without_any_price_is_not_free(fleet):
    (odd,) = [x for x in breakdown(fleet, Dimension.USER) if x.key == "eve"]
    assert not odd.priced
    assert odd.unpriced_hours == 1


def test_spot_is_compared_over_the_same_hours(fleet):
    saved = spot_savings(fleet)
    assert saved.on_demand == Decimal("5.030")
    assert saved.saved == Decimal("3.030")
    assert round(saved.percent, 1) == Decimal("60.2")
    assert saved.incomparable_hours == 1
    assert saved.saved <= saved.on_demand


def test_without_spot_there_is_no_percentage():
    assert spot_savings([]).percent is None


def test_dearer_spot_is_shown_as_a_loss(machine, flat_price):
    assert spot_savings(charge(run(1), machine(), flat_price("1.5"))).saved == Decimal("-0.494")


def test_three_thirds_of_a_dollar_are_shown_as_a_dollar():
    third = Decimal("0.333333333333")
    rows = {"a": third, "b": third, "c": Decimal("0.333333333334")}
    shown, whole = round_to_total(rows, Decimal(1), 2)
    assert whole == Decimal("1.00")
    assert shown == {"a": Decimal("0.33"), "b": Decimal("0.33"), "c": Decimal("0.34")}


def test_rows_that_do_not_add_up_are_refused():
    with pytest.raises(TotalMismatch, match="rows add up to 1 but the total is 2"):
        round_to_total({"a": Decimal(1)}, Decimal(2), 2)


AMOUNTS = st.decimals("-50", "5000", places=12, allow_nan=False, allow_infinity=False)


@given(st.lists(AMOUNTS, max_size=40), st.integers(0, 6))
def test_rounded_rows_add_up_and_none_is_off_by_a_unit(amounts, places):
    rows = dict(enumerate(amounts))
    shown, whole = round_to_total(rows, add(amounts), places)
    assert add(shown.values()) == whole
    unit = Decimal(1).scaleb(-places)
    assert all(abs(shown[k] - rows[k]) < unit for k in rows)
    assert abs(whole - add(amounts)) * 2 <= unit
    assert list(shown) == list(rows)
