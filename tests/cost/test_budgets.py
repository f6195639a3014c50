"""Budgets: spent, committed, remaining, and who is admitted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.budgets import Budget, Reservation, admits, budget_view, committed, crossed
from cost.errors import CurrencyMismatch
from cost.ledger import charge
from cost.usage import UsageInterval

NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)
BUDGET = Budget("vision", Decimal(100), "USD", "Europe/Berlin")


def hours(start: datetime, length: float, resource_id: str = "i-1") -> UsageInterval:
    return UsageInterval(resource_id, start, start + timedelta(hours=length))


def reserve(amount: str, owner: str = "job-1", ago_h: float = 10, **more: object) -> Reservation:
    fields = {"id": f"r-{owner}-{ago_h}", "team": "vision", "currency": "USD", **more}
    return Reservation(
        owner_id=owner, amount=Decimal(amount), made_at=NOW - timedelta(hours=ago_h), **fields
    )


def test_spending_resets_at_the_local_start_of_the_period(machine, flat_price):
    start = datetime(2026, 5, 31, 21, tzinfo=UTC)  # 23:00 in Berlin: one hour of May.
    charges = charge([hours(start, 4)], machine(), flat_price("2"))
    assert budget_view(BUDGET, charges, [], NOW).spent == 6
    assert budget_view(BUDGET, charges, [], start + timedelta(minutes=30)).spent == 1


def test_other_teams_do_not_count(machine, flat_price):
    charges = charge([hours(NOW, -0)], machine(team="nlp"), flat_price("2"))
    assert budget_view(BUDGET, charges, [reserve("5", team="nlp")], NOW).remaining == 100


def test_committed_is_what_is_reserved_and_not_yet_charged(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=12), 12)], machine(), flat_price("1"))
    view = budget_view(BUDGET, charges, [reserve("15", ago_h=10)], NOW)
    assert (view.spent, view.committed, view.remaining) == (12, 5, 83)


def test_a_run_that_outgrew_its_reservation_commits_nothing_and_is_spent(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=10), 10)], machine(), flat_price("3"))
    view = budget_view(BUDGET, charges, [reserve("15")], NOW)
    assert (view.spent, view.committed) == (30, 0)


def test_a_closed_reservation_is_gone():
    assert committed([reserve("15", open=False)], []) == 0


def test_one_charge_uses_up_one_reservation_only(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=10), 10)], machine(), flat_price("1"))
    held = [reserve("4", ago_h=10), reserve("20", ago_h=5)]
    # 10 charged: 4 use up the older, but 1 of them came before the newer was made.
    assert committed(held, charges) == 20 - 5
    assert committed(held[::-1], charges) == committed(held, charges)


def test_an_owner_that_saves_does_not_lower_what_another_has_reserved(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=10), 10)], machine(), flat_price("9"))
    assert committed([reserve("15"), reserve("7", owner="job-2")], charges) == 7


@given(
    amounts=st.lists(st.integers(0, 50), min_size=1, max_size=5),
    requests=st.lists(st.integers(0, 60), max_size=8),
)
def test_what_is_admitted_never_exceeds_the_budget(amounts, requests):
    held = [reserve(str(a), owner=f"o{i}") for i, a in enumerate(amounts)]
    if sum(amounts) > 100:
        assert budget_view(BUDGET, [], held, NOW).remaining < 0
        return
    for n, wanted in enumerate(requests):
        view = budget_view(BUDGET, [], held, NOW)
        if admits(view, Decimal(wanted)).ok:
            held.append(reserve(str(wanted), owner=f"new{n}"))
    assert budget_view(BUDGET, [], held, NOW).committed <= 100


def test_a_refusal_says_who_needs_what_and_what_is_left():
    view = budget_view(BUDGET, [], [reserve("99.50")], NOW)
    answer = admits(view, Decimal("0.75"))
    assert not answer.ok
    assert answer.remaining == Decimal("0.5")
    assert "vision needs 0.75 USD but has 0.50 of 100.00 USD left this period" in answer.why
    assert admits(view, Decimal("0.50")).ok


def test_what_is_free_stays_allowed_when_the_budget_is_spent():
    view = budget_view(BUDGET, [], [reserve("150")], NOW)
    assert view.remaining == -50
    assert admits(view, Decimal(0)).ok
    assert not admits(view, Decimal("0.0001")).ok


def test_what_has_no_known_price_is_not_admitted():
    answer = admits(budget_view(BUDGET, [], [], NOW), None)
    assert not answer.ok
    assert "unknown" in answer.why


def test_time_without_a_price_is_counted_apart(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=3), 3)], machine(), flat_price(None))
    view = budget_view(BUDGET, charges, [], NOW)
    assert (view.spent, view.unpriced) == (0, timedelta(hours=3))


def test_twenty_dollars_are_not_read_as_twenty_yen(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=1), 1)], machine(), flat_price("20"))
    with pytest.raises(CurrencyMismatch, match="budget of vision is in JPY"):
        budget_view(Budget("vision", Decimal(9000), "JPY", "Asia/Tokyo"), charges, [], NOW)
    with pytest.raises(CurrencyMismatch, match="EUR"):
        budget_view(BUDGET, charges, [reserve("1", currency="EUR")], NOW)


def test_a_threshold_has_one_key_a_period_and_a_new_one_in_the_next(machine, flat_price):
    charges = charge([hours(NOW - timedelta(hours=9), 9)], machine(), flat_price("10"))
    first = crossed(budget_view(BUDGET, charges, [], NOW), [50, 80, 100])
    again = crossed(budget_view(BUDGET, charges, [], NOW + timedelta(days=9)), [50, 80, 100])
    assert [key.rsplit("/", 1)[1] for key in first] == ["50", "80"]
    assert again == first
    july = NOW + timedelta(days=30)
    more = charge([hours(july - timedelta(hours=9), 9)], machine(), flat_price("10"))
    assert not set(crossed(budget_view(BUDGET, more, [], july), [50, 80, 100])) & set(first)
