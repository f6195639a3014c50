"""The spot market of this host: prices and capacity as a pure function of time.

Nothing is drawn and nothing is stored: the same settings give the same market for any instant, past
or future, in any process. A zone follows its recorded trace where it has one, else a seeded model.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from provisioner.errors import InvalidError
from provisioner.providers.local.trace import Trace, load_trace

_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REGIME_HOURS = 48
_REGIMES = (0.75, 0.9, 1.0, 1.1, 1.5)
_DAILY_SWING = 0.10
_HOURLY_SWING = 0.03
_FAR_HOURS = 24.0 * 365 * 100


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """A recorded market to replay in one zone, its first tick at `starts_at`."""

    zone: str
    path: Path
    starts_at: datetime


@dataclass(frozen=True, slots=True)
class MarketSettings:
    """The spot market. Raises `InvalidError` for values that make no sense."""

    seed: int = 0
    spot_price_fraction: Decimal = Decimal("0.35")
    """What spot costs on average, as a fraction of the on-demand price."""
    mean_hours_between_reclaims: float = 0.0
    """Mean life of a spot machine in zones without a trace; 0: it is never reclaimed."""
    notice_s: float = 120.0
    """Warning before a machine is reclaimed; 0: none."""
    traces: tuple[TraceSettings, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.spot_price_fraction <= 1:
            raise InvalidError(
                f"spot_price_fraction is {self.spot_price_fraction}: above 0, up to 1"
            )
        for name in ("mean_hours_between_reclaims", "notice_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidError(f"{name} of the spot market is {value}: 0 or more")
        if len({trace.zone for trace in self.traces}) != len(self.traces):
            raise InvalidError("a zone of the spot market has more than one trace")


class Market:
    """Answers for any zone and any instant; `on_demand` is the type's on-demand price per hour."""

    def __init__(self, settings: MarketSettings, traces: Mapping[str, Trace]) -> None:
        self._settings = settings
        self.traces = traces

    @classmethod
    def load(cls, settings: MarketSettings) -> Market:
        """Raises `InvalidError` for a trace that cannot be used."""
        traces = {one.zone: load_trace(one.path, one.starts_at) for one in settings.traces}
        return cls(settings, traces)

    def price(self, zone: str, on_demand: Decimal, at: datetime) -> Decimal:
        """The spot price per hour in force at an instant."""
        trace = self.traces.get(zone)
        recorded = trace.price(trace.tick(at), on_demand) if trace else None
        if recorded is not None:
            return recorded
        level = self._level(zone, (at - _EPOCH) // _HOUR)
        modelled = on_demand * self._settings.spot_price_fraction * level
        return min(on_demand, modelled.quantize(Decimal("0.000001")))

    def points(
        self, zone: str, on_demand: Decimal, start: datetime, end: datetime
    ) -> list[tuple[datetime, Decimal]]:
        """(instant, price from then on) over [start, end), the first at or before `start`."""
        points: list[tuple[datetime, Decimal]] = []
        for at in self._changes(zone, start, end):
            price = self.price(zone, on_demand, at)
            if not points or points[-1][1] != price:
                points.append((at, price))
        return points

    def capacity(self, zone: str, at: datetime) -> int | None:
        """How many spot machines the zone has for sale; None: as many as the host holds."""
        trace = self.traces.get(zone)
        return trace.capacity[trace.tick(at)] if trace else None

    def reclaim_at(self, zone: str, machine_id: str, slot: int, since: datetime) -> datetime | None:
        """When the machine that took the zone's `slot` (from 0) at `since` is taken back."""
        trace = self.traces.get(zone)
        if trace:
            return trace.next_below(slot + 1, since)
        mean = self._settings.mean_hours_between_reclaims
        if mean == 0:
            return None
        hours = -mean * math.log(1.0 - self._unit("reclaim", zone, machine_id))
        return since + timedelta(hours=min(hours, _FAR_HOURS))

    def _changes(self, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
        """The instants at which the price of a zone may change."""
        trace = self.traces.get(zone)
        if trace and trace.prices is not None:
            yield min(start, trace.begins(trace.tick(start)))
            for tick in range(trace.tick(start), trace.tick(end) + 1):
                if start < trace.begins(tick) < end:
                    yield trace.begins(tick)
            return
        at = _EPOCH + (start - _EPOCH) // _HOUR * _HOUR
        yield at
        while (at := at + _HOUR) < end:
            yield at

    def _level(self, zone: str, hour: int) -> Decimal:
        """Where the price stands relative to its mean: a regime of two days, a daily and an hourly
        swing, each drawn by hash, so that no hour depends on having computed the one before."""
        regime = _REGIMES[int(self._unit("regime", zone, hour // _REGIME_HOURS) * len(_REGIMES))]
        day = 1 + _DAILY_SWING * (2 * self._unit("day", zone, hour // 24) - 1)
        swing = 1 + _HOURLY_SWING * (2 * self._unit("hour", zone, hour) - 1)
        return Decimal(f"{regime * day * swing:.4f}")

    def _unit(self, *key: object) -> float:
        """A number in [0, 1) that is a function of the seed and the key."""
        text = "\n".join(str(part) for part in (self._settings.seed, *key))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
