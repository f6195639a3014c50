"""The month-end forecast: honest with little history, better than month-to-date with much."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cost.forecast import Method, daily_spend, forecast_month
from cost.ledger import charge
from cost.periods import local_date, period_bounds
from cost.series import look_ahead
from cost.usage import UsageInterval

JUNE = period_bounds(datetime(2026, 6, 15, tzinfo=UTC), "UTC")
NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
DATA = Path(
    os.environ.get("ROOST_TEST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
BILLS = DATA / "forecast" / "mybinder_daily_spend_first_year.csv"


def daily(amounts: list[float], last: date = date(2026, 6, 14)) -> pd.Series:
    first = last - timedelta(days=len(amounts) - 1)
    return pd.Series({first + timedelta(days=n): Decimal(str(a)) for n, a in enumerate(amounts)})


def forecast(series: pd.Series, now: datetime = NOON, rate: str = "1", **more: object):
    return forecast_month(series, now, JUNE.start, JUNE.end, Decimal(rate), **more)


def test_a_steady_spender_is_foreseen_closely():
    f = forecast(daily([24.0] * 60), today=Decimal(12))
    assert f.method is Method.BLEND
    assert abs(f.median - 24 * 30) < 1
    assert f.low <= f.median <= f.high
    assert f.history_days == 60


@pytest.mark.parametrize("known", [0, 1, 2])
def test_a_new_account_gets_a_running_rate_and_is_told_so(known):
    f = forecast(daily([10.0] * known), today=Decimal(3), rate="0.5")
    assert f.method is Method.RUNNING_RATE
    assert "insufficient history" in f.note
    spent = 10 * known + 3
    assert f.low == spent
    assert f.median == spent + Decimal("0.5") * Decimal("15.5") * 24
    assert f.high > f.median


def test_nothing_spent_and_nothing_running_is_zero():
    f = forecast(pd.Series(dtype=object), rate="0")
    assert (f.low, f.median, f.high) == (0, 0, 0)


def test_a_history_of_zeros_is_no_error():
    assert forecast(daily([0.0] * 20), rate="2").method is Method.RUNNING_RATE


def test_a_past_period_has_no_forecast():
    assert forecast(daily([24.0] * 60), now=JUNE.end) is None


def test_the_last_day_of_the_month_works():
    now = JUNE.end - timedelta(minutes=30)
    f = forecast(daily([24.0] * 60, date(2026, 6, 29)), now=now, today=Decimal("23.5"))
    assert Decimal(24 * 29) + Decimal("23.5") <= f.median < 24 * 30 + 1


def test_a_period_that_has_not_begun_is_forecast_whole():
    july = period_bounds(datetime(2026, 7, 2, tzinfo=UTC), "UTC")
    f = forecast_month(daily([24.0] * 60), NOON, july.start, july.end, Decimal(1))
    assert abs(f.median - 24 * 31) < 1


@pytest.mark.parametrize("seed", range(6))
def test_it_is_never_below_what_is_spent(seed):
    rng = np.random.default_rng(seed)
    series = daily(list(rng.exponential(5.0, 40) * (rng.random(40) < 0.4)))
    spent = sum(v for d, v in series.items() if d >= date(2026, 6, 1)) + Decimal("0.25")
    f = forecast(series, rate="0", today=Decimal("0.25"))
    assert spent <= f.low <= f.median <= f.high


def test_missing_days_are_unknown_and_not_zero():
    series = daily([24.0] * 60)
    holes = series[[d.day not in (3, 9, 10, 11) for d in series.index]]
    spent = Decimal(24 * 14 + 12)
    assert abs(forecast(holes, today=Decimal(12), spent=spent).median - 24 * 30) < 1


def test_what_runs_now_counts_half_for_a_day():
    calm = forecast(daily([24.0] * 60), today=Decimal(12), rate="1")
    burst = forecast(daily([24.0] * 60), today=Decimal(12), rate="11")
    assert burst.median - calm.median == pytest.approx(Decimal(10 * 12), rel=Decimal("0.01"))
    assert burst.high > calm.high


def test_quiet_weekends_are_foreseen():
    last = date(2026, 6, 14)  # A Sunday.
    days = [last - timedelta(days=n) for n in range(70)][::-1]
    series = pd.Series({d: 2.0 if d.weekday() >= 5 else 30.0 for d in days})
    outlook = look_ahead(series.to_numpy(), 7)
    assert outlook.days[:5].min() > 25
    assert outlook.days[5:].max() < 7


def test_a_noisier_series_has_a_wider_band():
    rng = np.random.default_rng(4)
    calm = look_ahead(24 + rng.normal(0, 0.5, 90), 15)
    wild = look_ahead(np.maximum(0, 24 + rng.normal(0, 12, 90)), 15)
    assert wild.high_total - wild.low_total > 2 * (calm.high_total - calm.low_total)


def test_less_history_makes_a_wider_band():
    rng = np.random.default_rng(5)
    values = 24 + rng.normal(0, 2, 200)
    widths = [
        (o.high_total - o.low_total) / o.days.sum()
        for o in (look_ahead(values[-n:], 16) for n in (4, 15, 200))
    ]
    assert widths[0] > widths[1] > widths[2]


def test_the_ledger_gives_both_inputs(machine, flat_price):
    start = datetime(2026, 6, 9, 18, 30, tzinfo=UTC)  # Midnight of the 10th in Kolkata.
    runs = [
        UsageInterval("i-1", start, start + timedelta(hours=24)),
        UsageInterval("i-1", start + timedelta(hours=72), start + timedelta(hours=78)),
    ]
    charges = charge(runs, machine(), flat_price("1"))
    now = start + timedelta(hours=78)
    series, today = daily_spend(charges, now, "Asia/Kolkata")
    assert dict(series) == {date(2026, 6, 10): 24, date(2026, 6, 11): 0, date(2026, 6, 12): 0}
    assert today == 6
    assert local_date(now, "Asia/Kolkata") == date(2026, 6, 13)


def test_a_day_with_unknown_prices_is_missing(machine, flat_price):
    start = datetime(2026, 6, 9, tzinfo=UTC)
    runs = [UsageInterval("i-1", start, start + timedelta(hours=24))]
    series, _ = daily_spend(
        charge(runs, machine(), flat_price(None)), start + timedelta(days=2), "UTC"
    )
    assert list(series.index) == [date(2026, 6, 10)]


@pytest.mark.skipif(not BILLS.exists(), reason=f"needs the real bills at {BILLS}")
def test_on_real_bills_it_beats_month_to_date_and_its_band_holds():
    bills = pd.read_csv(BILLS)
    bills = bills[bills["dimension"].isin(["project_id", "category"])]
    errors, naive, held = [], [], []
    for _, rows in bills.groupby(["dimension", "value"]):
        index = pd.to_datetime(rows["date"])
        series = pd.Series(rows["amount"].to_numpy(), index=index).asfreq("D")
        for n in range(45, len(series) - 31, 5):
            known, day = series.to_numpy()[: n + 1], series.index[n]
            left = day.days_in_month - day.day
            future = series.to_numpy()[n + 1 : n + 1 + left]
            month_to_date = np.nansum(known[-day.day :])
            truth = month_to_date + future.sum()
            if not left or not np.isfinite(truth) or truth < 1.0:
                continue
            outlook = look_ahead(known, left)
            errors.append(abs(outlook.days.sum() - future.sum()) / truth)
            naive.append(abs(month_to_date / day.day * left - future.sum()) / truth)
            held.append(outlook.low_total <= future.sum() <= outlook.high_total)
    assert len(errors) > 150
    assert np.mean(errors) < 0.75 * np.mean(naive)
    assert 0.70 <= np.mean(held) <= 0.95
