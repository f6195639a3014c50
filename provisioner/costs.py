"""What was spent, by whom, on what, and what it will come to: the books as people read them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from cost.errors import CostError, CurrencyMismatch
from cost.focus import Account, export
from cost.forecast import Forecast, Method, daily_spend, forecast_month
from cost.ledger import Charge, add, currency_of, total
from cost.periods import Period, period_bounds
from cost.reports.model import build_report
from cost.savings import CostLine, Dimension, breakdown
from policies.world import BudgetView
from provisioner import ledger
from provisioner.clock import Clock
from provisioner.errors import InvalidError
from provisioner.people import Actor, Role, team_id
from provisioner.store import ledger as ledger_rows
from provisioner.store import people
from provisioner.store.engine import Connection, Store
from provisioner.store.paging import Page, slice_page

_log = logging.getLogger(__name__)
_FORECAST_EVERY = timedelta(seconds=30)
_HISTORY = timedelta(days=400)
GROUPS = {
    "person": Dimension.USER,
    "job": Dimension.JOB,
    "workstation": Dimension.WORKSTATION,
    "mode": Dimension.MODE,
    "day": Dimension.DAY,
    "team": Dimension.TEAM,
}


@dataclass(frozen=True, slots=True)
class CostRow:
    key: str
    name: str
    cost: Decimal
    on_demand_cost: Decimal
    hours: Decimal
    estimated: bool


@dataclass(frozen=True, slots=True)
class CostView:
    """Amounts are exact; rounding is the reader's. None where there is no budget or forecast."""

    team_name: str | None
    start: datetime
    end: datetime
    currency: str
    total: Decimal
    on_demand_total: Decimal
    saved: Decimal
    rows: tuple[CostRow, ...]
    unknown_prices: int
    budget_amount: Decimal | None
    budget_spent: Decimal | None
    budget_committed: Decimal | None
    budget_remaining: Decimal | None
    forecast_low: Decimal | None
    forecast: Decimal | None
    forecast_high: Decimal | None
    forecast_note: str | None


@dataclass(frozen=True, slots=True)
class IntervalView:
    """One half-open span in which a machine or home was charged for."""

    resource_id: str
    owner_kind: str
    owner_id: str | None
    start: datetime
    end: datetime
    open: bool
    mode: str
    price_per_hour: Decimal | None
    """Of the machine at the start of the interval; None for homes."""
    cost: Decimal | None
    estimated: bool


class Costs:
    """The books of all teams."""

    def __init__(self, store: Store, clock: Clock, currency: str) -> None:
        self._store = store
        self._clock = clock
        self._currency = currency
        self._forecasts: dict[str, tuple[datetime, Forecast | None]] = {}

    def show(
        self,
        actor: Actor,
        team_ref: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        group_by: str = "person",
    ) -> CostView:
        """Costs of a span (default: the budget period so far), in groups."""
        now = self._clock.now()
        if group_by not in GROUPS:
            raise InvalidError(
                f"Costs cannot be grouped by {group_by!r}.",
                remedy=f"Use one of: {', '.join(GROUPS)}.",
            )
        with self._store.read() as connection:
            of = self._scope(connection, actor, team_ref)
            zone = _zone(connection, of)
            period = _period(start, end, now, zone)
            found = _in_one_currency(ledger.charges(connection, period, now, of))
            names = people.names(connection)
            view = ledger.budget_view(connection, of, now) if of is not None else None
            forecast = self._forecast(connection, of, now) if of is not None else None
        lines = breakdown(found, GROUPS[group_by], zone)
        listed = _listed(found, GROUPS[group_by], zone)
        spent, on_demand = total(found), _on_demand(found)
        return CostView(
            team_name=names.get(of) if of is not None else None,
            start=period.start,
            end=min(period.end, now) if end is None else period.end,
            currency=currency_of(found) or (view.currency if view else self._currency),
            total=spent,
            on_demand_total=on_demand,
            saved=add((on_demand, -spent)),
            rows=tuple(_row(line, listed[line.key], names) for line in lines if line.key),
            unknown_prices=sum(1 for c in found if c.billed_cost is None),
            budget_amount=view.amount if view else None,
            budget_spent=view.spent if view else None,
            budget_committed=view.committed if view else None,
            budget_remaining=view.remaining if view else None,
            forecast_low=forecast.low if forecast else None,
            forecast=forecast.median if forecast else None,
            forecast_high=forecast.high if forecast else None,
            forecast_note=forecast.note if forecast else None,
        )

    def intervals(
        self, actor: Actor, limit: int, cursor: str | None, owner_ref: str | None = None
    ) -> Page[IntervalView]:
        """Usage intervals of all that the actor may see, oldest first."""
        now = self._clock.now()
        of = None if actor.role is Role.ADMIN else actor.team_id
        with self._store.read() as connection:
            entries = ledger.entries(connection, Period(now - _HISTORY, now), now, of)
        views = [
            _interval(entry, interval.start, interval.end, interval.open, interval.estimated)
            for entry in entries
            if owner_ref in (None, entry.resource.owner_id, entry.resource.owner_name)
            for interval in entry.intervals
        ]
        views.sort(key=lambda view: (view.start, view.resource_id))
        return slice_page(views, limit, cursor)

    def report_html(self, actor: Actor, team_ref: str | None = None) -> str:
        """The current period as one self-contained page."""
        # matplotlib costs a second and 60 MB: the first report pays for it, not every start
        from cost.reports.html import render_html

        now = self._clock.now()
        with self._store.read() as connection:
            of = team_id(connection, actor, team_ref)
            zone = _zone(connection, of)
            period = period_bounds(now, zone)
            found = _in_one_currency(ledger.charges(connection, period, now, of, hourly=True))
            names = people.names(connection)
            view = ledger.budget_view(connection, of, now)
            forecast = self._forecast(connection, of, now)
        named = tuple(_named(charge, names) for charge in found)
        return render_html(
            build_report(
                names[of],
                named,
                period,
                now,
                zone,
                currency_of(found) or (view.currency if view else self._currency),
                budget=view,
                forecast=forecast,
            )
        )

    def focus_csv(
        self,
        actor: Actor,
        team_ref: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> str:
        """Charges as a FOCUS 1.4 Cost and Usage table."""
        now = self._clock.now()
        with self._store.read() as connection:
            of = self._scope(connection, actor, team_ref)
            period = _period(start, end, now, _zone(connection, of))
            found = ledger.charges(connection, period, now, of, hourly=True)
            names = people.names(connection)
        named = tuple(_named(charge, names) for charge in found)
        name = names[of] if of is not None else "all teams"
        return export(named, Account(of or "all", name)).to_csv()

    def budgets(self, connection: Connection, now: datetime) -> list[BudgetView]:
        """Every team's budget as the policies see it."""
        found = []
        for row in people.budgets(connection):
            try:
                view = ledger.budget_view(connection, row["team_id"], now)
                forecast = self._forecast(connection, row["team_id"], now)
            except CostError as error:  # one team's books must not stop what is done for all
                _log.error("the budget of team %s is not applied: %s", row["team_name"], error)
                continue
            if view is None:
                continue
            known = forecast is not None and forecast.method is not Method.RUNNING_RATE
            found.append(
                BudgetView(
                    team=row["team_name"],
                    amount=view.amount,
                    currency=view.currency,
                    spent=view.spent,
                    committed=view.committed,
                    forecast=forecast.median if forecast and known else None,
                    forecast_low=forecast.low if forecast and known else None,
                    forecast_high=forecast.high if forecast and known else None,
                    period_start=view.period.start,
                    period_end=view.period.end,
                )
            )
        return found

    def _forecast(self, connection: Connection, of: str, now: datetime) -> Forecast | None:
        """The month's end, computed anew when it is older than half a minute."""
        known = self._forecasts.get(of)
        if known is not None and timedelta() <= now - known[0] < _FORECAST_EVERY:
            return known[1]
        zone = _zone(connection, of)
        period = period_bounds(now, zone)
        found = ledger.charges(connection, Period(now - _HISTORY, now), now, of)
        try:
            days, today = daily_spend(found, now, zone)
        except CurrencyMismatch:
            return None  # months in two currencies foretell nothing
        view = ledger.budget_view(connection, of, now)
        forecast = forecast_month(
            days,
            now,
            period.start,
            period.end,
            _rate(found),
            today=today,
            spent=view.spent if view else None,
            zone=zone,
        )
        self._forecasts[of] = (now, forecast)
        return forecast

    def _scope(self, connection: Connection, actor: Actor, ref: str | None) -> str | None:
        """The team that is meant: the actor's own unless named; None is all teams."""
        if ref is None and actor.role is Role.ADMIN:
            return actor.team_id
        return team_id(connection, actor, ref)


def _zone(connection: Connection, of: str | None) -> str:
    if of is None:
        return "UTC"
    row = ledger_rows.team_zone(connection, of)
    return row or "UTC"


def _period(start: datetime | None, end: datetime | None, now: datetime, zone: str) -> Period:
    try:
        current = period_bounds(now, zone)
    except CostError as error:
        raise InvalidError(str(error)) from error
    period = Period(start or current.start, end or current.end)
    if period.end <= period.start:
        raise InvalidError(
            f"The span ends at {period.end.isoformat()}, before it starts at "
            f"{period.start.isoformat()}.",
            remedy="Give an end after the start.",
        )
    return period


def _in_one_currency(charges: tuple[Charge, ...]) -> tuple[Charge, ...]:
    try:
        currency_of(charges)
    except CurrencyMismatch as error:
        raise InvalidError(
            f"These costs have no one total: {error}.",
            remedy="Export them, line by line: `roost cost export`.",
        ) from error
    return charges


def _rate(charges: Sequence[Charge]) -> Decimal:
    """What all that runs now costs an hour."""
    return add(
        c.contracted_unit_price
        for c in charges
        if c.open and c.contracted_unit_price is not None and c.resource.size_gib is None
    )


def _on_demand(charges: Sequence[Charge]) -> Decimal:
    """The same use at on-demand prices; what has none counts as it was billed."""
    return add(
        c.list_cost if c.list_cost is not None else c.billed_cost
        for c in charges
        if c.billed_cost is not None
    )


def _listed(charges: Sequence[Charge], by: Dimension, zone: str) -> dict[str, Decimal]:
    """On-demand cost by group: the same breakdown over charges at their list price."""
    return {line.key: line.billed for line in breakdown(_at_list_price(charges), by, zone)}


def _at_list_price(charges: Sequence[Charge]) -> list[Charge]:
    return [
        replace(c, billed_cost=c.list_cost, contracted_unit_price=c.list_unit_price)
        if c.billed_cost is not None and c.list_cost is not None
        else c
        for c in charges
    ]


def _row(line: CostLine, on_demand: Decimal, names: dict[str, str]) -> CostRow:
    name = names.get(line.key, line.name)
    return CostRow(line.key, name, line.billed, on_demand, line.hours, line.estimated)


def _named(charge: Charge, names: dict[str, str]) -> Charge:
    """With the names of people and teams in place of ids, for readers outside."""
    resource = charge.resource
    return replace(
        charge,
        resource=replace(
            resource,
            team=names.get(resource.team, resource.team),
            user=names.get(resource.user, resource.user),
        ),
    )


def _interval(
    entry: ledger.Entry, start: datetime, end: datetime, is_open: bool, estimated: bool
) -> IntervalView:
    inside = [
        c for c in entry.charges if c.charge_period_start < end and c.charge_period_end > start
    ]
    known = [c.billed_cost for c in inside if c.billed_cost is not None]
    machine = entry.resource.size_gib is None
    return IntervalView(
        resource_id=entry.resource.id,
        owner_kind=entry.resource.owner_kind,
        owner_id=entry.resource.owner_id,
        start=start,
        end=end,
        open=is_open,
        mode=entry.resource.mode,
        price_per_hour=inside[0].contracted_unit_price if inside and machine else None,
        cost=add(known) if len(known) == len(inside) else None,
        estimated=estimated,
    )
