"""The books: charges from observed usage and the prices of the time, budgets and admission.

Nothing here is stored as a result. Events and prices are facts; charges, spending and what is left
of a budget are computed from them, so that they can never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from cost import budgets
from cost.ledger import Charge, Resource, ResourceKind, clip, currency_of, total
from cost.ledger import charge as charges_of
from cost.periods import Period, period_bounds
from cost.prices import PriceBook, PricePoint
from cost.usage import UsageInterval, derive_intervals
from provisioner.errors import BudgetExceededError
from provisioner.ids import new_id
from provisioner.store import ledger as rows
from provisioner.store.engine import Connection
from provisioner.store.resources import charged_resources
from provisioner.store.rows import Row

_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_LONGEST_RESERVATION = timedelta(days=62)


@dataclass(frozen=True, slots=True)
class Entry:
    """One resource with its usage and what it cost."""

    resource: Resource
    intervals: tuple[UsageInterval, ...]
    charges: tuple[Charge, ...]


def entries(
    connection: Connection,
    period: Period,
    now: datetime,
    team_id: str | None = None,
    *,
    hourly: bool = False,
) -> tuple[Entry, ...]:
    """Everything that was used in a period, by resource; charges are cut to the period.

    `hourly` has a charge for each hour, as bills do; sums are the same either way.
    """
    resources = charged_resources(connection, period.start, period.end, team_id=team_id)
    return _entries(connection, resources, period, now, hourly=hourly)


def _entries(
    connection: Connection,
    resources: list[tuple[Resource, str]],
    period: Period,
    now: datetime,
    *,
    hourly: bool = False,
) -> tuple[Entry, ...]:
    ids = [resource.id for resource, _ in resources]
    intervals: dict[str, list[UsageInterval]] = {}
    for interval in derive_intervals(rows.events_for(connection, ids), now):
        intervals.setdefault(interval.instance_id, []).append(interval)
    known = rows.prices_for(connection, {series for _, series in resources})
    book = PriceBook.of(
        {
            resource.id: [_point(resource, p.at, p.price, p.currency) for p in known[series]]
            for resource, series in resources
            if series in known
        }
    )
    found = (
        _entry(resource, intervals.get(resource.id, ()), book, period, hourly)
        for resource, _ in resources
    )
    return tuple(entry for entry in found if entry.charges)


def charges(
    connection: Connection,
    period: Period,
    now: datetime,
    team_id: str | None = None,
    *,
    hourly: bool = False,
) -> tuple[Charge, ...]:
    """All charges of a period, in order of resource and time."""
    found = entries(connection, period, now, team_id, hourly=hourly)
    return tuple(charge for entry in found for charge in entry.charges)


def budget_view(
    connection: Connection, team_id: str, now: datetime, *, lock: bool = False
) -> budgets.BudgetView | None:
    """A team's budget in its current period; None without a budget."""
    row = rows.budget_row(connection, team_id, lock=lock)
    if row is None:
        return None
    period = period_bounds(now, row["timezone"], row["period"])
    held = rows.open_reservations(connection, team_id)
    start = min([period.start, *(max(r.made_at, now - _LONGEST_RESERVATION) for r in held)])
    spent = charges(connection, Period(start, period.end), now, team_id)
    return budgets.budget_view(_budget(row, team_id), spent, held, now)


def admit(
    connection: Connection,
    *,
    team_id: str,
    team_name: str,
    owner_id: str,
    amount: Decimal,
    currency: str,
    now: datetime,
) -> None:
    """Set money aside in the transaction of the desired row, or refuse.

    Teams without a budget are not limited, but what is promised to them is written down as well.

    Raises:
        BudgetExceededError: the team's budget has no room; nothing was written.
    """
    view = budget_view(connection, team_id, now, lock=True)
    if view is not None:
        if view.currency != currency and amount > 0:
            raise BudgetExceededError(
                f"The budget of team {team_name} is in {view.currency}, the price in {currency}.",
                remedy="Give the budget in the currency of the prices.",
            )
        admission = budgets.admits(view, amount)
        if not admission.ok:
            why = admission.why.replace(team_id, team_name)
            raise BudgetExceededError(
                f"The budget has no room: {why}.",
                remedy="Ask for less (a smaller machine, a shorter job), stop something, "
                "or have the team's lead raise the budget.",
            )
    rows.reserve(
        connection,
        id=new_id("res"),
        team_id=team_id,
        owner_id=owner_id,
        amount=amount,
        currency=currency,
        now=now,
    )


def _entry(
    resource: Resource,
    intervals: Iterable[UsageInterval],
    book: PriceBook,
    period: Period,
    hourly: bool,
) -> Entry:
    inside = tuple(i for i in intervals if i.start < period.end and i.end > period.start)
    found = charges_of(inside, resource, book, hourly=hourly)
    return Entry(resource, inside, clip(found, period.start, period.end))


def _budget(row: Row, team_id: str) -> budgets.Budget:
    return budgets.Budget(team_id, row["amount"], row["currency"], row["timezone"], row["period"])


def _point(resource: Resource, at: datetime, price: Decimal, currency: str) -> PricePoint:
    if resource.kind is ResourceKind.VOLUME:
        return PricePoint(at, None, currency, price_per_gib_month=price)
    return PricePoint(at, price, currency)


def cost_of_owner(
    connection: Connection, owner_id: str, now: datetime
) -> tuple[Decimal | None, str | None]:
    """What a job or workstation has cost so far, all its machines together.

    None when nothing ran yet, or where a price is unknown.
    """
    period = Period(_BEGINNING, now)
    resources = charged_resources(connection, period.start, period.end, owner_id=owner_id)
    found = [c for entry in _entries(connection, resources, period, now) for c in entry.charges]
    if not found or any(c.billed_cost is None for c in found):
        return None, None
    return total(found), currency_of(found)
