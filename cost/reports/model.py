"""A cost report as data: everything a renderer shows, computed once.

Rows are rounded by largest remainder, all tables to the same places, so that every table adds up to
the total that the report shows. The renderers compute no money.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from cost.budgets import BudgetView
from cost.forecast import Forecast
from cost.ledger import Charge, ResourceKind, add, clip, currency_of, total
from cost.periods import Period, utc
from cost.reports.money import duration, places_for
from cost.savings import CostLine, Dimension, Savings, breakdown, round_to_total, spot_savings

_TABLES = (
    ("By person", Dimension.USER),
    ("By workstation and job", Dimension.OWNER),
    ("By purchase mode", Dimension.MODE),
    ("By day", Dimension.DAY),
)
_MAX_POINTS = 400


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: the amount as shown, and the exact one behind it."""

    name: str
    shown: Decimal
    exact: Decimal
    hours: Decimal
    unpriced_hours: Decimal
    estimated: bool
    priced: bool
    """False: the cost is unknown, and `shown` stands for nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """Lines that add up to the report's total, as shown."""

    title: str
    dimension: Dimension
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """Everything charged in the period up to `at`."""

    at: datetime
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Report:
    """A team's costs in one period, seen at `now`."""

    team: str
    period: Period
    now: datetime
    zone: str
    currency: str
    places: int
    """Decimal places of every amount that is part of the total."""
    spent: Decimal | None
    """None when something ran but nothing of it has a known price."""
    spent_shown: Decimal
    machine_hours: Decimal
    savings: Savings
    tables: tuple[Table, ...]
    cumulative: tuple[Point, ...]
    budget: BudgetView | None
    forecast: Forecast | None
    """None for a period that is over."""
    notes: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Nothing was charged, priced or not."""
        return not self.tables


def build_report(
    team: str,
    charges: Iterable[Charge],
    period: Period,
    now: datetime,
    zone: str,
    currency: str,
    *,
    budget: BudgetView | None = None,
    forecast: Forecast | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """The report on `charges`, of whom only what lies in the period and before `now` counts.

    Args:
        team: for the title; the caller selects the charges (one team's, or all).
        currency: shown when there are no priced charges to tell it.
        notes: shown after the report's own.

    Raises:
        CurrencyMismatch: the charges are in more than one currency.
    """
    now = utc(now)
    charges = clip(charges, period.start, min(period.end, now))
    spent = total(charges)
    places = places_for(spent)
    priced = any(c.billed_cost is not None for c in charges)
    machines = (c for c in charges if c.resource.kind is ResourceKind.INSTANCE)
    return Report(
        team=team,
        period=period,
        now=now,
        zone=zone,
        currency=currency_of(charges) or currency,
        places=places,
        spent=spent if priced or not charges else None,
        spent_shown=round_to_total({"all": spent}, spent, places)[1],
        machine_hours=add(c.hours for c in machines),
        savings=spot_savings(charges),
        tables=tuple(_table(t, d, charges, zone, places) for t, d in _TABLES) if charges else (),
        cumulative=_cumulative(charges),
        budget=budget,
        forecast=forecast if now < period.end else None,
        notes=(*_notes(charges), *notes),
    )


def _table(
    title: str, dimension: Dimension, charges: Sequence[Charge], zone: str, places: int
) -> Table:
    lines = breakdown(charges, dimension, zone)
    exact = {line.key: line.billed for line in lines}
    shown, _ = round_to_total(exact, add(exact.values()), places)
    return Table(title, dimension, tuple(_row(line, shown[line.key]) for line in lines))


def _row(line: CostLine, shown: Decimal) -> Row:
    return Row(
        name=line.name or "nobody",
        shown=shown,
        exact=line.billed,
        hours=line.hours,
        unpriced_hours=line.unpriced_hours,
        estimated=line.estimated,
        priced=line.priced,
    )


def _cumulative(charges: Sequence[Charge]) -> tuple[Point, ...]:
    """Running total at every edge of a charge: cost accrues evenly within one."""
    slopes: dict[datetime, Decimal] = {}
    for c in charges:
        if c.billed_cost:
            length = c.charge_period_end - c.charge_period_start
            slope = c.billed_cost / Decimal(length // timedelta(microseconds=1))
            slopes[c.charge_period_start] = slopes.get(c.charge_period_start, Decimal(0)) + slope
            slopes[c.charge_period_end] = slopes.get(c.charge_period_end, Decimal(0)) - slope
    points: list[Point] = []
    amount, slope = Decimal(0), Decimal(0)
    for at in sorted(slopes):
        if points:
            elapsed = Decimal((at - points[-1].at) // timedelta(microseconds=1))
            amount += slope * elapsed
        slope += slopes[at]
        points.append(Point(at, amount))
    return _thinned(points)


def _thinned(points: list[Point]) -> tuple[Point, ...]:
    """Few enough for a drawing; the last one always stays."""
    step = -(-len(points) // _MAX_POINTS) or 1
    last = points[-1:] if (len(points) - 1) % step else []
    return (*points[::step], *last)


def _notes(charges: Sequence[Charge]) -> tuple[str, ...]:
    """What a reader must know about how sure the figures are."""
    unknown = [c for c in charges if c.billed_cost is None]
    guessed = [c for c in charges if c.estimated]
    running = {c.resource.id for c in charges if c.open}
    found = []
    if unknown:
        hours = duration(add(c.hours for c in unknown))
        names = ", ".join(sorted({c.resource.name for c in unknown})[:5])
        found.append(f"{hours} of use has no known price and is in no total ({names}).")
    if guessed:
        names = ", ".join(sorted({c.resource.name for c in guessed})[:5])
        found.append(f"Estimated, because a start or end was not observed: {names}.")
    if running:
        count = "One resource is" if len(running) == 1 else f"{len(running)} resources are"
        found.append(f"{count} still running; charged up to the time of this report.")
    return tuple(found)
