"""Budgets: what a team has spent and committed this period, and whether a request still fits.

Pure sums over charges and reservations. That two requests at the same time cannot both take the
last dollar is the business of the transaction in which the caller evaluates this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby

from cost.errors import CurrencyMismatch
from cost.ledger import Charge, add, clip, currency_of, total
from cost.periods import Period, period_bounds, utc

__all__ = [
    "Admission",
    "Budget",
    "BudgetView",
    "Reservation",
    "admits",
    "budget_view",
    "committed",
    "crossed",
    "period_bounds",
]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a team may spend each period; periods are local months of `zone`."""

    team: str
    amount: Decimal
    currency: str
    zone: str
    every: str = "monthly"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside when something was admitted, until it ends (`open` False)."""

    id: str
    owner_id: str
    team: str
    amount: Decimal
    currency: str
    made_at: datetime
    open: bool = True


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget in its current period."""

    team: str
    amount: Decimal
    currency: str
    period: Period
    spent: Decimal
    committed: Decimal
    unpriced: timedelta
    """Time of the period that has no known price and is therefore in no figure."""
    estimated: bool
    """Some of what is spent rests on an end that nobody saw."""

    @property
    def remaining(self) -> Decimal:
        """What may still be promised; negative when overdrawn."""
        return add((self.amount, -self.spent, -self.committed))


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a request, with the sentence for the person who asked."""

    ok: bool
    remaining: Decimal
    why: str


def budget_view(
    budget: Budget,
    charges: Iterable[Charge],
    reservations: Iterable[Reservation],
    now: datetime,
) -> BudgetView:
    """The budget in the period around `now`.

    Args:
        charges: of any team and time; those of the team count, cut to the period. They must reach
            back to the oldest open reservation, which may lie in the period before.

    Raises:
        CurrencyMismatch: charges or reservations of the team are in another currency.
    """
    mine = tuple(c for c in charges if c.resource.team == budget.team)
    held = tuple(r for r in reservations if r.team == budget.team and r.open)
    _check_currency(budget, mine, held)
    period = period_bounds(now, budget.zone, budget.every)
    current = clip(mine, period.start, min(period.end, utc(now)))
    unknown = (c for c in current if c.billed_cost is None)
    return BudgetView(
        team=budget.team,
        amount=budget.amount,
        currency=budget.currency,
        period=period,
        spent=total(current),
        committed=committed(held, mine),
        unpriced=sum((c.charge_period_end - c.charge_period_start for c in unknown), timedelta()),
        estimated=any(c.estimated for c in current),
    )


def committed(reservations: Iterable[Reservation], charges: Iterable[Charge]) -> Decimal:
    """Reserved beyond what has been charged to the same owner since; per owner never below 0.

    With several open reservations of one owner each charge uses up the oldest one first, so that
    it is set against one reservation only.
    """
    by_owner: dict[str | None, list[Charge]] = {}
    for charge in charges:
        by_owner.setdefault(charge.resource.owner_id, []).append(charge)
    held = sorted((r for r in reservations if r.open), key=lambda r: (r.owner_id, r.made_at, r.id))
    return add(
        _left(tuple(group), by_owner.get(owner, []))
        for owner, group in groupby(held, key=lambda r: r.owner_id)
    )


def admits(view: BudgetView, requested: Decimal | None) -> Admission:
    """Whether a request fits into what remains.

    What costs nothing is always admitted; what has no known price never is.
    """
    left = view.remaining
    if requested is None:
        return Admission(
            False, left, "the price is unknown, so the budget cannot answer for it; set a price"
        )
    if requested <= 0:
        return Admission(True, left, "it costs nothing")
    room = f"{_plain(left)} of {_plain(view.amount)} {view.currency} left this period"
    if requested <= left:
        return Admission(True, left, f"needs {_plain(requested)} {view.currency}, {room}")
    return Admission(
        False,
        left,
        f"team {view.team} needs {_plain(requested)} {view.currency} but has {room} "
        f"(spent {_plain(view.spent)}, committed {_plain(view.committed)})",
    )


def crossed(view: BudgetView, percents: Sequence[int]) -> tuple[str, ...]:
    """Keys of the thresholds that spending has reached: equal within a period, new in the next.

    Whoever sends alerts stores the key under a unique constraint, and so sends each once.
    """
    reached = (p for p in sorted(percents) if view.spent * 100 >= view.amount * p and view.amount)
    return tuple(f"{view.team}/{view.period.start.isoformat()}/spent/{p}" for p in reached)


def _left(reservations: Sequence[Reservation], charges: Sequence[Charge]) -> Decimal:
    """What is left of one owner's reservations, given that owner's charges."""
    left = [r.amount for r in reservations]
    starts = [utc(r.made_at) for r in reservations]
    ends = [*starts[1:], max([c.charge_period_end for c in charges] + starts[-1:])]
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        pool = total(clip(charges, start, end))
        for i in range(index + 1):
            used = min(left[i], pool)
            left[i] = add((left[i], -used))
            pool = add((pool, -used))
    return add(max(Decimal(0), amount) for amount in left)


def _check_currency(
    budget: Budget, charges: tuple[Charge, ...], reservations: tuple[Reservation, ...]
) -> None:
    found = {currency_of(charges) or budget.currency, *(r.currency for r in reservations)}
    other = found - {budget.currency}
    if other:
        raise CurrencyMismatch(
            f"the budget of {budget.team} is in {budget.currency}, but money was spent or reserved "
            f"in {', '.join(sorted(other))}; convert it with a dated rate first"
        )


def _plain(amount: Decimal) -> str:
    """For sentences: cents, or as many places as a smaller amount needs."""
    places = 2 if amount == 0 or abs(amount) >= 1 else max(2, 1 - amount.adjusted())
    return f"{amount:.{places}f}"
