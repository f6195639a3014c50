from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.problems import BadTextError
from policies.quantities import Duration, Money, Percent, Range, Window

amounts = st.decimals(0, 10**9, places=2, allow_nan=False)
numbers = st.integers(0, 10**6).map(Decimal)
ranges = st.tuples(numbers, numbers).map(lambda pair: Range(min(pair), max(pair)))
windows = (
    st.tuples(
        st.frozensets(st.integers(0, 6), min_size=1), st.integers(0, 1439), st.integers(0, 1440)
    )
    .filter(lambda parts: parts[1] != parts[2])
    .map(lambda parts: Window(*parts))
)


@given(st.integers(1, 9 * 10**8).map(Duration))
def test_a_duration_is_read_back_as_it_was_written(duration: Duration) -> None:
    assert Duration.parse(str(duration)) == duration


@given(st.decimals(0, 999, places=2).map(Percent))
def test_a_percentage_is_read_back_as_it_was_written(percent: Percent) -> None:
    assert Percent.parse(str(percent)) == percent


@given(amounts, st.sampled_from(["USD", "EUR", "JPY"]))
def test_money_is_read_back_as_it_was_written(amount: Decimal, currency: str) -> None:
    money = Money(amount, currency)
    assert Money.parse(str(money)) == money
    assert Money.parse_up_to(f"up to {money}") == money


@given(ranges | numbers.map(lambda low: Range(low, None)))
def test_a_range_is_read_back_as_it_was_written(span: Range) -> None:
    assert Range.parse(str(span)) == span


@given(ranges, ranges)
def test_two_ranges_meet_exactly_when_a_number_is_in_both(one: Range, two: Range) -> None:
    shared = any(one.holds(float(n)) and two.holds(float(n)) for n in (one.low, two.low))
    assert one.meets(two) == two.meets(one) == shared


@given(windows)
def test_a_window_is_read_back_as_it_was_written(window: Window) -> None:
    assert Window.parse(str(window)) == window


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("72h", 259200), ("7d", 604800), ("1d12h", 129600)],
)
def test_durations(text: str, seconds: int) -> None:
    assert Duration.parse(text).delta == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("mon-fri 08:00-19:00", {0, 1, 2, 3, 4}, 480, 1140),
        ("fri-mon 22:00-06:00", {4, 5, 6, 0}, 1320, 360),
        ("mon,wed 00:00-24:00", {0, 2}, 0, 1440),
        ("09:30-17:00", set(range(7)), 570, 1020),
    ],
)
def test_windows(text: str, days: set[int], start: int, end: int) -> None:
    assert Window.parse(text) == Window(frozenset(days), start, end)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration.parse, text)
        for text in ("30", "0m", "", "-5m", "1.5h", "5m30", "٣m", "9999999999999s", ["30m"])
    ]
    + [(Percent.parse, text) for text in ("5", "-1%", "five%", "5%%", {})]
    + [(Money.parse, text) for text in ("4.00", "$4", "4 usd", "4,00 USD", "-1 USD", "nan USD")]
    + [(Money.parse_up_to, text) for text in ("4.00 USD", "upto 4.00 USD", "up to 4.00")]
    + [(Range.parse, text) for text in ("4..1", "..4", "1-4", "+", "1..4+", "")]
    + [
        (Window.parse, text)
        for text in (
            "mon-fri",
            "mon 8:00-19:00",
            "mon 08:00-08:00",
            "mon 24:00-08:00",
            "mon 08:60-09:00",
            "mon 08:00-25:00",
            "montag 08:00-09:00",
            "mon, 08:00-09:00",
        )
    ],
)
def test_what_is_no_quantity_is_refused(kind, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadTextError):
        kind(text)
