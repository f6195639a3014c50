"""What spot saved, and who spent what: sums over charges, exact until they are shown.

Rounding happens once, at presentation, by largest remainder: `round_to_total`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from typing import TypeVar

from cost.errors import TotalMismatch
from cost.ledger import Charge, PricingCategory, ResourceKind, add, currency_of, total
from cost.periods import local_date, midnights

K = TypeVar("K")

_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN)


class Dimension(StrEnum):
    """What costs can be broken down by."""

    TEAM = "team"
    USER = "user"
    JOB = "job"
    WORKSTATION = "workstation"
    OWNER = "owner"
    """Jobs and workstations together."""
    MODE = "mode"
    DAY = "day"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of a breakdown. Amounts hold what has a price; the rest is in `unpriced_hours`."""

    key: str
    name: str
    billed: Decimal
    hours: Decimal
    """Machine hours; volumes add none."""
    unpriced_hours: Decimal
    estimated: bool
    priced: bool
    """Some of it has a price. Where nothing has, `billed` sums nothing: the cost is unknown."""


@dataclass(frozen=True, slots=True)
class Savings:
    """What the spot charges cost, and would have cost on demand over the same intervals."""

    billed: Decimal
    on_demand: Decimal
    incomparable_hours: Decimal
    """Spot hours without a price or without a known on-demand price; in neither figure."""

    @property
    def saved(self) -> Decimal:
        """Never more than the on-demand cost; negative if spot was dearer."""
        return add((self.on_demand, -self.billed))

    @property
    def percent(self) -> Decimal | None:
        """Of the on-demand cost; None without one."""
        if not self.on_demand:
            return None
        return _CONTEXT.divide(_CONTEXT.multiply(self.saved, Decimal(100)), self.on_demand)


def spot_savings(charges: Iterable[Charge]) -> Savings:
    """Spot against on demand, over exactly the intervals that were charged."""
    spot = tuple(c for c in charges if c.pricing_category is PricingCategory.DYNAMIC)
    currency_of(spot)
    both = [c for c in spot if c.billed_cost is not None and c.list_cost is not None]
    return Savings(
        billed=add(c.billed_cost for c in both if c.billed_cost is not None),
        on_demand=add(c.list_cost for c in both if c.list_cost is not None),
        incomparable_hours=add(
            c.hours for c in spot if c.billed_cost is None or c.list_cost is None
        ),
    )


def breakdown(
    charges: Iterable[Charge], dimension: Dimension, zone: str = "UTC"
) -> tuple[CostLine, ...]:
    """Costs by one dimension, dearest first (days in order); the lines sum to the charges' total.

    Args:
        zone: whose local days `Dimension.DAY` means; charges are cut at its midnights exactly.
    """
    charges = tuple(charges)
    currency_of(charges)
    if dimension is Dimension.DAY:
        charges = tuple(part for c in charges for part in _by_midnight(c, zone))
    groups: dict[tuple[str, str], list[Charge]] = {}
    for c in charges:
        groups.setdefault(_key(c, dimension, zone), []).append(c)
    lines = [_line(key, name, group) for (key, name), group in groups.items()]
    if dimension is Dimension.DAY:
        return tuple(sorted(lines, key=lambda line: line.key))
    return tuple(sorted(lines, key=lambda line: (-line.billed, line.name, line.key)))


def cost_by(
    charges: Iterable[Charge], dimension: Dimension, zone: str = "UTC"
) -> dict[str, Decimal]:
    """Billed cost by key of the dimension, exact."""
    return {line.key: line.billed for line in breakdown(charges, dimension, zone)}


def round_to_total(
    rows: Mapping[K, Decimal], whole: Decimal, places: int
) -> tuple[dict[K, Decimal], Decimal]:
    """Rows and total rounded so that the rows still add up: by largest remainder.

    The total is rounded half to even. Every row is cut down, and what is missing is given, one
    unit each, to the rows that lost most (the earlier row first when they lost the same). No row
    is off by a whole unit of the last place.

    Raises:
        TotalMismatch: the rows do not add up to the total to begin with.
    """
    if add(rows.values()) != whole:
        raise TotalMismatch(
            f"the rows add up to {add(rows.values())} but the total is {whole}; "
            "show all rows, or add one for the rest"
        )
    unit = Decimal(1).scaleb(-places)
    shown = whole.quantize(unit, context=_CONTEXT)
    floor = Context(prec=60, rounding=ROUND_FLOOR)
    result = {key: amount.quantize(unit, context=floor) for key, amount in rows.items()}
    lost = sorted(rows, key=lambda key: add((result[key], -rows[key])))
    missing = int(add((shown, -add(result.values()))) / unit)
    for key in lost[:missing]:
        result[key] = add((result[key], unit))
    return result, shown


def _by_midnight(charge: Charge, zone: str) -> Iterable[Charge]:
    start, end = charge.charge_period_start, charge.charge_period_end
    cuts = [start, *midnights(start, end, zone), end]
    parts = (charge.clip(a, b) for a, b in itertools.pairwise(cuts))
    return (part for part in parts if part is not None)


def _key(charge: Charge, dimension: Dimension, zone: str) -> tuple[str, str]:
    """Key and name of the line that a charge belongs to."""
    resource = charge.resource
    owner = resource.owner_id or ""
    match dimension:
        case Dimension.TEAM:
            return resource.team, resource.team
        case Dimension.USER:
            return resource.user, resource.user
        case Dimension.JOB | Dimension.WORKSTATION if resource.owner_kind != dimension.value:
            return "", f"not a {dimension.value}"
        case Dimension.JOB | Dimension.WORKSTATION | Dimension.OWNER:
            return owner, resource.owner_name or owner or "no owner"
        case Dimension.MODE:
            volume = resource.kind is ResourceKind.VOLUME
            return ("storage", "storage") if volume else (resource.mode, resource.mode)
        case Dimension.RESOURCE:
            return resource.id, resource.name
    day = local_date(charge.charge_period_start, zone).isoformat()
    return day, day


def _line(key: str, name: str, charges: list[Charge]) -> CostLine:
    machines = [c for c in charges if c.resource.kind is ResourceKind.INSTANCE]
    return CostLine(
        key=key,
        name=name,
        billed=total(charges),
        hours=add(c.hours for c in machines),
        unpriced_hours=add(c.hours for c in charges if c.billed_cost is None),
        estimated=any(c.estimated for c in charges),
        priced=any(c.billed_cost is not None for c in charges),
    )
