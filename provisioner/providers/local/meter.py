"""The provider's own bill: what ran when, at which price, unrounded.

Made from the meter's records and the prices alone, never from what the control plane believes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from policies.world import PurchaseMode
from provisioner.providers.local.machine.files import names, read_lines
from provisioner.providers.local.tariff import Tariff

_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_AN_HOUR = Decimal(3_600_000_000)
HOURS_A_MONTH = 730

PricePoints = Callable[[datetime, datetime], Sequence[tuple[datetime, Decimal]]]
"""(instant, price per hour) over a span, the first at or before its start."""


class Meter:
    """Every machine that was ever sold to an installation, from the meter's files."""

    def __init__(self, root: Path, installation: str, tariff: Tariff) -> None:
        self._folder = root / "meter"
        self._installation = installation
        self._tariff = tariff

    def bill(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        """What each machine that ran inside [start, end) cost then."""
        bill: dict[str, Decimal] = {}
        for machine_id, sale in self._sales():
            spans = runs(str(self._folder / f"{machine_id}.jsonl"))
            if any_in(spans, start, end):
                kind = (sale["instance_type"], sale["zone"], PurchaseMode(sale["mode"]))
                bill[machine_id] = cost(spans, start, end, partial(self._tariff.points, *kind))
        return bill

    def _sales(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name in names(str(self._folder)):
            lines = read_lines(str(self._folder / name)) if name.endswith(".jsonl") else []
            if lines and lines[0]["installation"] == self._installation:
                yield name.removesuffix(".jsonl"), lines[0]


@dataclass(frozen=True, slots=True)
class Run:
    """One span that is billed; `end` None: it goes on."""

    start: datetime
    end: datetime | None


def runs(path: str) -> list[Run]:
    """The runs in a meter file, in order; of several ends of one run the first counts."""
    starts: dict[int, datetime] = {}
    ends: dict[int, datetime] = {}
    for line in read_lines(path):
        if line["event"] in ("start", "end"):
            into = starts if line["event"] == "start" else ends
            into.setdefault(line["run"], datetime.fromisoformat(line["at"]))
    return [Run(start, ends.get(run)) for run, start in sorted(starts.items())]


def any_in(spans: Iterable[Run], start: datetime, end: datetime) -> bool:
    """Whether any of the spans reaches into [start, end)."""
    return any(one.start < end and (one.end is None or one.end > start) for one in spans)


def cost(spans: Iterable[Run], start: datetime, end: datetime, points: PricePoints) -> Decimal:
    """What the spans cost inside [start, end): microseconds x price, divided once at the end."""
    total = Decimal(0)
    for span in spans:
        first, last = max(span.start, start), min(span.end or end, end)
        if first >= last:
            continue
        prices = points(first, last)
        for (at, price), after in zip(prices, [p[0] for p in prices[1:]] + [last], strict=True):
            total += price * ((after - max(at, first)) // _MICROSECOND)
    return total / _MICROSECONDS_AN_HOUR
