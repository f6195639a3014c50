"""Recorded spot markets, replayed.

A trace file is a JSON object:

    {"metadata": {"gap_seconds": 600, "on_demand_price": 3.06},
     "data": [1, 1, 0, 2, ...],
     "prices": [0.91, 0.92, ...]}

`data` has for each tick how many spot machines the zone had; 0 is none at all. `prices`, where
given, has the spot price per hour at each tick. `on_demand_price`, where given, is what the
recorded machine cost on demand: prices are then replayed as a fraction of it, so that they fit a
machine of another size. Before the first tick the first one holds, after the last one the last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from provisioner.errors import InvalidError


@dataclass(frozen=True, slots=True)
class Trace:
    """One zone's market as recorded, laid on the calendar from `starts_at` on."""

    starts_at: datetime
    gap: timedelta
    capacity: tuple[int, ...]
    prices: tuple[Decimal, ...] | None = None
    on_demand_price: Decimal | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "starts_at": self.starts_at.isoformat(),
            "gap_s": self.gap.total_seconds(),
            "capacity": list(self.capacity),
            "prices": None if self.prices is None else [str(price) for price in self.prices],
            "on_demand_price": None if self.on_demand_price is None else str(self.on_demand_price),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Trace:
        prices, whole = value["prices"], value["on_demand_price"]
        return cls(
            starts_at=datetime.fromisoformat(value["starts_at"]),
            gap=timedelta(seconds=value["gap_s"]),
            capacity=tuple(value["capacity"]),
            prices=None if prices is None else tuple(Decimal(price) for price in prices),
            on_demand_price=None if whole is None else Decimal(whole),
        )

    def tick(self, at: datetime) -> int:
        """The index of the tick that holds at an instant."""
        return min(max((at - self.starts_at) // self.gap, 0), len(self.capacity) - 1)

    def begins(self, tick: int) -> datetime:
        return self.starts_at + tick * self.gap

    def price(self, tick: int, on_demand: Decimal) -> Decimal | None:
        if self.prices is None:
            return None
        if self.on_demand_price is None:
            return self.prices[tick]
        return (self.prices[tick] / self.on_demand_price * on_demand).quantize(Decimal("0.000001"))

    def next_below(self, wanted: int, after: datetime) -> datetime | None:
        """The first instant later than `after` at which fewer than `wanted` machines can be had."""
        first = self.tick(after) + (1 if after >= self.starts_at else 0)
        for tick in range(first, len(self.capacity)):
            if self.capacity[tick] < wanted and self.begins(tick) > after:
                return self.begins(tick)
        return None


def load_trace(path: Path, starts_at: datetime) -> Trace:
    """Read and check a trace file; raises `InvalidError` with the file, the place and the cause."""
    if starts_at.tzinfo is None:
        raise InvalidError(f"the start of trace {path} has no time zone: {starts_at.isoformat()}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise InvalidError(f"trace {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidError(f"trace {path} is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise InvalidError(f"trace {path} is not an object with `metadata` and `data`")
    metadata, data = content["metadata"], content.get("data")
    gap = _positive(path, "metadata.gap_seconds", metadata.get("gap_seconds"))
    if not isinstance(data, list) or not data:
        raise InvalidError(f"trace {path}: `data` is not a list with at least one tick")
    for index, value in enumerate(data):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidError(
                f"trace {path}: data[{index}] is {_shown(value)}, not a number of machines",
                remedy="Each tick needs a whole number, 0 or more; fill holes before the replay.",
            )
    on_demand = metadata.get("on_demand_price")
    return Trace(
        starts_at=starts_at,
        gap=timedelta(seconds=float(gap)),
        capacity=tuple(data),
        prices=_prices(path, content.get("prices"), len(data)),
        on_demand_price=None
        if on_demand is None
        else _positive(path, "metadata.on_demand_price", on_demand),
    )


def _prices(path: Path, prices: Any, ticks: int) -> tuple[Decimal, ...] | None:
    if prices is None:
        return None
    if not isinstance(prices, list) or len(prices) != ticks:
        raise InvalidError(f"trace {path}: `prices` needs one price for each of {ticks} ticks")
    return tuple(_positive(path, f"prices[{i}]", price) for i, price in enumerate(prices))


def _positive(path: Path, place: str, value: Any) -> Decimal:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = Decimal(value)
        if number.is_finite() and number > 0:
            return number
    raise InvalidError(f"trace {path}: {place} is {_shown(value)}, not a number above 0")


def _shown(value: Any) -> str:
    return "missing" if value is None else str(value)
