"""What a team will have spent by the end of the period, with a band.

A blend of two views. Bottom-up: what is spent, and what runs now times its rate. The series: the
level and weekday profile of the days before (`cost.series`). For the next 24 hours each counts
half; beyond that nobody knows what will run, and the series counts alone. With fewer than three
whole days of history there is only the running rate, and the band says so by its width. Known
events to come (a planned stop, the end of a commitment) are not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

import numpy as np
import pandas as pd

from cost.ledger import Charge, add
from cost.periods import Period, day_start, local_date, utc
from cost.savings import Dimension, breakdown
from cost.series import Floats, look_ahead

MINIMUM_HISTORY_DAYS = 3
HORIZON = timedelta(hours=24)
"""How long what runs now is taken to go on running."""
_RUNNING_SHARE = 0.5
_PLACES = Decimal("1e-12")
_HISTORY_DAYS = 400


class Method(StrEnum):
    """How the figure came about."""

    RUNNING_RATE = "running-rate"
    BLEND = "blend"


@dataclass(frozen=True, slots=True)
class Forecast:
    """The period's total: median, and the band that holds four cases of five."""

    low: Decimal
    median: Decimal
    high: Decimal
    method: Method
    history_days: int
    note: str


def forecast_month(
    daily: pd.Series,
    now: datetime,
    period_start: datetime,
    period_end: datetime,
    running_rate_per_hour: Decimal,
    *,
    today: Decimal = Decimal(0),
    spent: Decimal | None = None,
    zone: str = "UTC",
) -> Forecast | None:
    """Forecast the total of the period that `now` lies in.

    Args:
        daily: spend by local date (`datetime.date` or Timestamp), whole days only; from before the
            period too. A missing day is unknown and is not taken for 0.
        today: spent since the last local midnight, kept apart because the day is not over.
        spent: what the period cost so far, today included; by default the sum of the series'
            days and `today`. Give it where days are missing from the series.
        running_rate_per_hour: price per hour of all that runs now.
        zone: IANA zone of the dates.

    Returns:
        None for a period that is over: what it cost is known. Never below what is spent already.
    """
    period = Period(utc(period_start), utc(period_end))
    now = utc(now)
    if now >= period.end:
        return None
    this_day = local_date(now, zone)
    history = _whole_days(daily, this_day)
    if spent is None:
        before = _spent(daily, period, this_day, zone)
        spent = add((before, today if now >= period.start else Decimal(0)))
    known = int(np.isfinite(history).sum())
    if known < MINIMUM_HISTORY_DAYS or not np.any(history > 0):
        return _by_running_rate(spent, now, period, running_rate_per_hour, known)
    rest, low, high = _rest(history, now, period, float(running_rate_per_hour), float(today), zone)
    return Forecast(
        low=add((spent, _money(low))),
        median=add((spent, _money(rest))),
        high=add((spent, _money(high))),
        method=Method.BLEND,
        history_days=known,
        note=f"from {known} days of history, and for the next 24 hours half from what runs now",
    )


def daily_spend(charges: Iterable[Charge], now: datetime, zone: str) -> tuple[pd.Series, Decimal]:
    """The two inputs above from a ledger: spend by local date before today, and today's so far.

    From the first charge on, a day without charges did cost 0, since the ledger would know; a day
    on which something had no price is missing.
    """
    lines = {date.fromisoformat(c.key): c for c in breakdown(charges, Dimension.DAY, zone)}
    today = local_date(now, zone)
    if not lines:
        return pd.Series(dtype=object), Decimal(0)
    first = min(lines)
    days = (first + timedelta(days=n) for n in range((today - first).days))
    spend = {d: lines[d].billed if d in lines else Decimal(0) for d in days}
    known = {d: v for d, v in spend.items() if d not in lines or not lines[d].unpriced_hours}
    return pd.Series(known, dtype=object), lines[today].billed if today in lines else Decimal(0)


def _by_running_rate(
    spent: Decimal, now: datetime, period: Period, rate: Decimal, known: int
) -> Forecast:
    """From nothing more stops at once, to half as much again as if all of it never stopped."""
    hours = Decimal(str((period.end - max(now, period.start)) / timedelta(hours=1)))
    rest = _money(float(rate * hours))
    days = "1 day" if known == 1 else f"{known} days"
    return Forecast(
        low=spent,
        median=add((spent, rest)),
        high=add((spent, rest * Decimal("1.5"))),
        method=Method.RUNNING_RATE,
        history_days=known,
        note=f"insufficient history ({days}): as if what runs now ran until the period ends",
    )


def _rest(
    history: Floats, now: datetime, period: Period, rate: float, today: float, zone: str
) -> tuple[float, float, float]:
    """What is still to come in the period: median, low and high."""
    first = local_date(now, zone)
    last = local_date(period.end - timedelta(microseconds=1), zone)
    outlook = look_ahead(history, (last - first).days + 1)
    series = float(outlook.days.sum())
    rest, rate_hours = 0.0, 0.0
    for ahead, expected in enumerate(outlook.days):
        start = day_start(first + timedelta(days=ahead), zone)
        end = day_start(first + timedelta(days=ahead + 1), zone)
        left = _overlap(max(start, now, period.start), min(end, period.end))
        soon = _overlap(max(start, now, period.start), min(end, period.end, now + HORIZON))
        hours = _overlap(start, end)
        due = float(expected) * left / hours
        if ahead == 0 and start >= period.start:
            # Half by the clock, half by what the day's usual sum leaves: office hours are not even.
            due = (due + max(0.0, min(due * 2.0, float(expected) - today))) / 2.0
        share = _RUNNING_SHARE * soon / left if left else 0.0
        rest += (1.0 - share) * due + _RUNNING_SHARE * rate * soon
        rate_hours += soon
    scale = rest / series if series else 1.0
    below = (series - outlook.low_total) * scale
    above = (outlook.high_total - series) * scale
    # The two views of the next day are part of what is not known.
    gap = _RUNNING_SHARE * abs(rate * rate_hours - series / len(outlook.days) * rate_hours / 24)
    return rest, max(0.0, rest - below - gap), rest + above + gap


def _whole_days(daily: pd.Series, before: date) -> Floats:
    """The last days before a date as a gapless array: NaN where nothing is known."""
    index = pd.DatetimeIndex(pd.to_datetime(list(daily.index)))
    values = pd.Series([float(v) for v in daily], index=index, dtype="float64")
    values = values.groupby(level=0).sum(min_count=1).sort_index()
    values = values[values.index < pd.Timestamp(before)]
    if not len(values):
        return np.array([], dtype=np.float64)
    yesterday = pd.Timestamp(before) - pd.Timedelta(days=1)
    full = values.reindex(pd.date_range(values.index[0], yesterday, freq="D"))
    return np.array(full, dtype=np.float64)[-_HISTORY_DAYS:]


def _spent(daily: pd.Series, period: Period, before: date, zone: str) -> Decimal:
    """What the whole days of the period cost so far, exact if the series holds Decimals."""
    first = local_date(period.start, zone)
    amounts = (
        value if isinstance(value, Decimal) else Decimal(str(value))
        for day, value in daily.items()
        if first <= pd.Timestamp(day).date() < before  # type: ignore[arg-type]
    )
    return add(amount for amount in amounts if amount.is_finite())


def _overlap(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start) / timedelta(hours=1))


def _money(amount: float) -> Decimal:
    return Decimal(str(max(0.0, amount))).quantize(_PLACES)
