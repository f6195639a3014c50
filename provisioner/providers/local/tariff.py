"""The price of any machine type at any time: what `prices` answers and what the bill charges.

Prices are settings and settings change. Each change is put down with its time, so that yesterday is
charged, and answered for, at yesterday's prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from policies.world import PurchaseMode
from provisioner.clock import Clock
from provisioner.errors import InvalidRequest
from provisioner.providers.local.machine.files import append_json, read_lines
from provisioner.providers.local.market import Market, MarketSettings
from provisioner.providers.local.offers import type_named
from provisioner.providers.local.settings import LocalSettings
from provisioner.providers.local.trace import Trace

_PRICES = (
    "price_per_cpu_hour",
    "price_per_gib_hour",
    "price_per_gpu_hour",
    "price_per_volume_gib_month",
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What held from an instant on."""

    since: datetime
    settings: LocalSettings
    market: Market


class Tariff:
    """On-demand prices from the settings, spot prices from the market, over all of the past."""

    def __init__(self, root: Path, settings: LocalSettings, market: Market, clock: Clock) -> None:
        self._path = str(root / "tariffs.jsonl")
        self._settings = settings
        self._market = market
        self._clock = clock
        self.recorded = False

    def record(self) -> None:
        """Put down the prices of now where they are new. The caller holds the root's lock."""
        if self.recorded:
            return
        lines = read_lines(self._path)
        now = _to_json(self._settings, self._market)
        if not lines or lines[-1]["rates"] != now:
            append_json(self._path, {"at": self._clock.now().isoformat(), "rates": now})
        self.recorded = True

    def rates(self) -> list[Rates]:
        """All that ever held, oldest first; the last one holds now."""
        lines = read_lines(self._path)
        known = [
            _from_json(datetime.fromisoformat(line["at"]), line["rates"], self._settings)
            for line in lines
        ]
        if lines and lines[-1]["rates"] == _to_json(self._settings, self._market):
            return known
        return [*known, Rates(self._clock.now(), self._settings, self._market)]

    def points(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[tuple[datetime, Decimal]]:
        """(instant, price per hour from then on) over [start, end), the first at or before `start`.

        Raises `InvalidRequest` for what no host sells. A zone may be one of former settings.
        """
        kind = type_named(instance_type)
        if kind is None or mode is PurchaseMode.RESERVED:
            raise InvalidRequest(f"this host sells no {instance_type} in {zone} as {mode}")
        points: list[tuple[datetime, Decimal]] = []
        for rates, first, last in _within(self.rates(), start, end):
            price = kind.on_demand_price(rates.settings)
            if mode is PurchaseMode.SPOT:
                points += rates.market.points(zone, price, first, last)
            else:
                points.append((first, price))
        return points

    def volume_points(self, start: datetime, end: datetime) -> Sequence[tuple[datetime, Decimal]]:
        """(instant, price per GiB-month from then on), as `points`."""
        return [
            (first, rates.settings.price_per_volume_gib_month)
            for rates, first, _ in _within(self.rates(), start, end)
        ]


def _within(
    periods: list[Rates], start: datetime, end: datetime
) -> list[tuple[Rates, datetime, datetime]]:
    """The periods that reach into [start, end), cut to it; before the first one it holds too."""
    found = []
    for index, rates in enumerate(periods):
        first = start if index == 0 else max(start, rates.since)
        last = end if index == len(periods) - 1 else min(end, periods[index + 1].since)
        if first < last:
            found.append((rates, first, last))
    return found or [(periods[-1], start, end)]


def _to_json(settings: LocalSettings, market: Market) -> dict[str, Any]:
    traces = {zone: trace.to_json() for zone, trace in sorted(market.traces.items())}
    return {name: str(getattr(settings, name)) for name in _PRICES} | {
        "seed": settings.market.seed,
        "spot_price_fraction": str(settings.market.spot_price_fraction),
        "traces": traces,
    }


def _from_json(since: datetime, value: dict[str, Any], now: LocalSettings) -> Rates:
    fraction = Decimal(value["spot_price_fraction"])
    market = MarketSettings(seed=value["seed"], spot_price_fraction=fraction)
    traces = {zone: Trace.from_json(trace) for zone, trace in value["traces"].items()}
    prices: dict[str, Any] = {name: Decimal(value[name]) for name in _PRICES}
    return Rates(since, replace(now, **prices), Market(market, traces))
