"""A daily spend series and what it says about the days ahead: level, weekday profile, errors.

numpy only, one series at a time. Missing days are NaN, never 0. The method is an ensemble of
exponential smoothers (level only, and damped trend) on the deseasonalised series, weighted by their
own rolling errors; its uncertainty is read from what the same ensemble would have got wrong before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ALPHAS = (0.03, 0.07, 0.15, 0.3, 0.5, 0.8)
_TRENDS = tuple((a, b, p) for a in (0.1, 0.25, 0.5) for b in (0.03, 0.1) for p in (0.9, 0.97))
_ORIGINS = 91
"""Past days from which forecasts are scored."""
_HALF_LIFE_DAYS = 45.0
_SHARPNESS = 12.0
"""How strongly the better smoothers are preferred."""
_PRIOR_ERROR = 0.22
"""Half-width (80 %) of a month's relative error before anything is known of the series."""
_PRIOR_WEIGHT = 6.0
"""Independent past horizons that the prior counts for."""
_INFLATION = 1.12
"""Past errors are those of weights chosen with hindsight; new ones are a little larger."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The days ahead of a series, day 1 being the day after its last."""

    days: Floats
    low_total: float
    """10 % quantile of the sum of all days."""
    high_total: float
    """90 % quantile."""


def look_ahead(values: Floats, horizon: int) -> Outlook:
    """Forecast `horizon` days of a daily series whose first day's weekday does not matter."""
    season, multiplicative = _weekday_profile(values)
    phase = np.arange(len(values) + horizon) % 7
    flat = (
        values / season[phase[: len(values)]]
        if multiplicative
        else (values - season[phase[: len(values)]])
    )
    levels, slopes = _smooth(flat)
    weights = _weights(flat, levels, slopes)
    tail = season[phase[len(values) :]]
    path = _path(levels[-1:], slopes[-1:], weights, horizon)[0]
    days = np.maximum(path * tail if multiplicative else path + tail, 0.0)
    below, above = _relative_errors(flat, levels, slopes, weights, horizon)
    total = float(days.sum())
    scale = max(total, float(np.maximum(path, 0.0).sum()))
    return Outlook(days, max(0.0, total - below * scale), total + above * scale)


def _weekday_profile(values: Floats) -> tuple[Floats, bool]:
    """Seven factors (or offsets), shrunk towards none by how noisy they are (James-Stein)."""
    trend = _centred_week(values)
    recent = values[-112:]
    trend = trend[-112:]
    age = np.arange(len(recent))[::-1]
    phase = (np.arange(len(values)) % 7)[-112:]
    weight = 0.5 ** (age / 28.0)
    known = np.isfinite(recent) & np.isfinite(trend)
    if known.sum() < 14 or not np.any(trend[known] > 0):
        return np.zeros(7), False
    recent, trend, weight, phase = recent[known], trend[known], weight[known], phase[known]
    safe = np.maximum(trend, 1e-9 * float(trend.max()))
    factors = np.maximum(_shrunk(recent / safe, weight, phase, 1.0), 0.01)
    offsets = _shrunk(recent - trend, weight, phase, 0.0)
    by_factor = float(np.sum(weight * np.abs(recent - trend * factors[phase])))
    by_offset = float(np.sum(weight * np.abs(recent - trend - offsets[phase])))
    return (factors, True) if by_factor <= by_offset else (offsets, False)


def _shrunk(ratio: Floats, weight: Floats, phase: NDArray[np.int_], none: float) -> Floats:
    means = np.full(7, none)
    noise = np.zeros(7)
    for day in range(7):
        on = phase == day
        if on.sum() == 0:
            continue
        w = weight[on] / weight[on].sum()
        means[day] = float(np.sum(w * ratio[on]))
        spread = float(np.sum(w * (ratio[on] - means[day]) ** 2))
        # A day seen once shows no spread of its own: count it as noisy as the days differ.
        noise[day] = spread * float(np.sum(w**2)) if on.sum() > 1 else float(np.var(ratio))
    means += none - means.mean()
    between = float(np.mean((means - none) ** 2))
    if between <= 0.0:
        return np.full(7, none)
    keep = max(0.0, 1.0 - float(noise.mean()) / between)
    return none + keep * (means - none)


def _centred_week(values: Floats) -> Floats:
    padded = np.concatenate([np.full(3, np.nan), values, np.full(3, np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 7)
    count = np.isfinite(windows).sum(axis=1)
    total = np.where(np.isfinite(windows), windows, 0.0).sum(axis=1)
    return np.where(count >= 4, total / np.maximum(count, 1), np.nan)


def _smooth(flat: Floats) -> tuple[Floats, Floats]:
    """Level and slope of every smoother after every day, both (days, smoothers)."""
    alpha = np.array([*_ALPHAS, *(a for a, _, _ in _TRENDS)])
    beta = np.array([*(0.0 for _ in _ALPHAS), *(b for _, b, _ in _TRENDS)])
    phi = _phi()
    finite = flat[np.isfinite(flat)]
    level = np.full(len(alpha), float(finite[:7].mean()))
    slope = np.zeros(len(alpha))
    levels = np.empty((len(flat), len(alpha)))
    slopes = np.empty_like(levels)
    for t, y in enumerate(flat):
        expected = level + phi * slope
        if np.isfinite(y):
            # Early on every smoother is a plain mean: its own memory is longer than the history.
            gain = np.maximum(alpha, 1.0 / (t + 1.0))
            moved = expected + gain * (y - expected)
            slope = phi * slope + beta * (moved - level - phi * slope)
            level = moved
        else:
            level, slope = expected, phi * slope
        levels[t], slopes[t] = level, slope
    return levels, slopes


def _phi() -> Floats:
    return np.array([*(0.0 for _ in _ALPHAS), *(p for _, _, p in _TRENDS)])


def _weights(flat: Floats, levels: Floats, slopes: Floats) -> Floats:
    """Of the smoothers, from their errors at several horizons over the last origins."""
    n = len(flat)
    cost = np.zeros(levels.shape[1])
    for h in (1, 3, 7, 14, 21, 28):
        first = max(2, n - h - _ORIGINS)
        origins = np.arange(first, n - h)
        if len(origins) == 0:
            break
        truth = flat[origins + h][:, None]
        guess = levels[origins] + slopes[origins] * _damped(h)
        age = 0.5 ** ((n - h - 1 - origins) / _HALF_LIFE_DAYS)[:, None]
        error = np.where(np.isfinite(truth), np.abs(truth - guess), 0.0)
        cost += (error * age).sum(axis=0) / max(1.0, float(age.sum()))
    best = float(cost.min())
    if best <= 0.0:
        return np.full(len(cost), 1.0 / len(cost))
    # Few origins cannot tell the smoothers apart: prefer less sharply then.
    sharp = _SHARPNESS * min(1.0, n / 60.0)
    raw = np.exp(-sharp * np.minimum(cost / best - 1.0, 50.0))
    weights: Floats = raw / raw.sum()
    return weights


def _damped(h: int) -> Floats:
    """Sum of phi^1..phi^h: how far h days of a damped slope reach."""
    phi = _phi()
    return phi * (1.0 - phi**h) / (1.0 - phi)


def _path(levels: Floats, slopes: Floats, weights: Floats, horizon: int) -> Floats:
    """The weighted forecast of days 1..horizon from each origin: (origins, horizon)."""
    reach = np.array([_damped(h) for h in range(1, horizon + 1)])
    paths: Floats = (levels @ weights)[:, None] + slopes @ (reach * weights).T
    return paths


def _relative_errors(
    flat: Floats, levels: Floats, slopes: Floats, weights: Floats, horizon: int
) -> tuple[float, float]:
    """How far the total may lie below and above, relative to itself (80 % of the cases).

    Totals over past horizons are forecast again from past origins. A history too short for the
    whole horizon is scored on a shorter one and scaled by the square root of time, and the fewer
    independent horizons there are the more a prior counts.
    """
    n = len(flat)
    h = max(1, min(horizon, n // 3))
    prior = _PRIOR_ERROR * (1.0 + 5.0 / n)
    origins = np.arange(max(2, n - h - _ORIGINS), n - h)
    if len(origins) == 0:
        return min(1.0, prior), prior
    truth = flat[origins[:, None] + np.arange(1, h + 1)]
    known = np.isfinite(truth)
    expected = np.where(known, _path(levels[origins], slopes[origins], weights, h), 0.0).sum(axis=1)
    happened = np.where(known, truth, 0.0).sum(axis=1)
    usable = expected > 0.0
    if not usable.any():
        return min(1.0, prior), prior
    errors = happened[usable] / expected[usable] - 1.0
    stretch = float(np.sqrt(horizon / h))
    independent = len(errors) / h
    share = independent / (independent + _PRIOR_WEIGHT * min(1.0, 1.0 / max(independent, 0.2)))
    low, high = (float(q) for q in np.quantile(errors, [0.1, 0.9]))
    below = share * max(0.0, -low) * stretch * _INFLATION + (1.0 - share) * prior
    above = share * max(0.0, high) * stretch * _INFLATION + (1.0 - share) * prior
    return min(1.0, below), above
