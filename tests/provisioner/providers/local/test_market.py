"""The spot market is a function of time, within its bounds, and says what is wrong with a trace."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.errors import InvalidError
from provisioner.providers.local.market import Market, MarketSettings, TraceSettings
from provisioner.providers.local.trace import Trace, load_trace

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ON_DEMAND = Decimal("1.00")
MOMENTS = st.timedeltas(timedelta(days=-9000), timedelta(days=9000)).map(lambda by: START + by)


def market(**settings: object) -> Market:
    return Market(MarketSettings(**settings), {})  # type: ignore[arg-type]


def traced(*capacity: int, prices: tuple[str, ...] | None = None) -> Market:
    quoted = tuple(Decimal(price) for price in prices) if prices else None
    trace = Trace(START, timedelta(minutes=10), capacity, quoted)
    return Market(MarketSettings(), {"z": trace})


@given(at=MOMENTS, seed=st.integers(0, 2**32), fraction=st.decimals("0.01", 1, places=2))
def test_a_modelled_price_is_repeatable_and_never_above_on_demand(
    at: datetime, seed: int, fraction: Decimal
) -> None:
    first, second = (market(seed=seed, spot_price_fraction=fraction) for _ in range(2))
    price = first.price("z", ON_DEMAND, at)
    assert 0 < price <= ON_DEMAND
    assert price == second.price("z", ON_DEMAND, at)


@given(at=MOMENTS, hours=st.integers(0, 60))
def test_points_say_what_price_says(at: datetime, hours: int) -> None:
    one = market()
    end = at + hours * HOUR + timedelta(seconds=1)
    points = one.points("z", ON_DEMAND, at, end)
    assert points[0][0] <= at
    for moment in (at, at + (end - at) / 2, end - timedelta(microseconds=1)):
        in_force = [price for since, price in points if since <= moment][-1]
        assert in_force == one.price("z", ON_DEMAND, moment)


def test_prices_move_around_the_fraction_and_differ_by_zone() -> None:
    one = market(spot_price_fraction=Decimal("0.4"))
    year = [one.price("z", ON_DEMAND, START + n * HOUR) for n in range(0, 24 * 365, 5)]
    assert sum(year) / len(year) == pytest.approx(Decimal("0.4"), rel=Decimal("0.1"))
    assert len(set(year)) > 100
    assert one.price("y", ON_DEMAND, START) != one.price("z", ON_DEMAND, START)


def test_reclaims_come_at_their_mean_rate_or_never() -> None:
    one = market(mean_hours_between_reclaims=10.0)
    lives = [one.reclaim_at("z", f"m{n}", 0, START) for n in range(2000)]
    hours = [(at - START) / HOUR for at in lives if at]
    assert sum(hours) / len(lives) == pytest.approx(10, rel=0.1)
    assert market().reclaim_at("z", "m", 0, START) is None


def test_a_trace_is_replayed_from_its_start() -> None:
    one = traced(1, 1, 0, 2)
    ten = timedelta(minutes=10)
    shown = [one.capacity("z", START + n * ten) for n in range(-1, 6)]
    assert shown == [1, 1, 1, 0, 2, 2, 2]
    assert one.capacity("elsewhere", START) is None
    assert one.reclaim_at("z", "m", 0, START) == START + 2 * ten
    assert one.reclaim_at("z", "m", 0, START - HOUR) == START + 2 * ten
    assert one.reclaim_at("z", "m", 0, START + 3 * ten) is None
    assert one.reclaim_at("z", "m", 1, START + 3 * ten) is None


def test_recorded_prices_are_replayed_tick_by_tick() -> None:
    one = traced(1, 1, 1, prices=("0.5", "0.5", "0.75"))
    ten = timedelta(minutes=10)
    assert one.points("z", ON_DEMAND, START, START + HOUR) == [
        (START, Decimal("0.5")),
        (START + 2 * ten, Decimal("0.75")),
    ]


def test_prices_of_another_size_are_a_fraction_of_its_own() -> None:
    trace = Trace(START, HOUR, (1,), (Decimal("0.9"),), on_demand_price=Decimal("3.0"))
    one = Market(MarketSettings(), {"z": trace})
    assert one.price("z", Decimal("0.05"), START) == Decimal("0.015")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("nonsense", "is not JSON"),
        ("[]", "is not an object"),
        ({"data": [1]}, "is not an object with `metadata`"),
        ({"metadata": {}, "data": [1]}, "gap_seconds is missing"),
        ({"metadata": {"gap_seconds": 0}, "data": [1]}, "gap_seconds is 0"),
        ({"metadata": {"gap_seconds": 600}, "data": []}, "at least one tick"),
        ({"metadata": {"gap_seconds": 600}, "data": [1, None, 1]}, r"data\[1\] is missing"),
        ({"metadata": {"gap_seconds": 600}, "data": [1, 0, -1]}, r"data\[2\] is -1"),
        ({"metadata": {"gap_seconds": 600}, "data": [True]}, r"data\[0\] is True"),
        ({"metadata": {"gap_seconds": 600}, "data": [1], "prices": [1, 2]}, "one price for each"),
        ({"metadata": {"gap_seconds": 600}, "data": [1], "prices": [-1]}, r"prices\[0\] is -1"),
        ({"metadata": {"gap_seconds": 600}, "data": [1], "prices": [None]}, r"prices\[0\]"),
    ],
)
def test_a_bad_trace_is_refused_with_the_place(
    tmp_path: Path, content: object, complaint: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InvalidError, match=complaint) as caught:
        load_trace(path, START)
    assert str(path) in caught.value.message


def test_a_missing_trace_and_a_naive_start_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="cannot be read"):
        Market.load(MarketSettings(traces=(TraceSettings("z", tmp_path / "none", START),)))
    with pytest.raises(InvalidError, match="no time zone"):
        load_trace(tmp_path / "none", START.replace(tzinfo=None))


def test_a_trace_survives_its_record() -> None:
    trace = Trace(START, HOUR, (1, 0), (Decimal("0.9"), Decimal("1")), Decimal("3.0"))
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace
