"""Usage events, prices in force and reservations; what they cost is computed, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, RowMapping

from cost.budgets import Reservation
from cost.usage import UsageEvent, UsageKind
from provisioner.providers.contract import PricePoint
from provisioner.store.tables import budget, price_point, reservation, team, usage_event

_BATCH = 1000
"""Few enough for the parameters of one statement, on either database."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A start or an end of a machine or home, as observed."""

    resource_id: str
    kind: UsageKind
    at: datetime
    estimated: bool = False


def add_events(connection: Connection, facts: Iterable[Fact], now: datetime) -> None:
    """Append what was observed; facts that are known already are not counted again."""
    rows = [
        {
            "key": f"{fact.resource_id}:{fact.kind}:{fact.at.isoformat()}",
            "resource_id": fact.resource_id,
            "at": fact.at,
            "kind": fact.kind,
            "estimated": fact.estimated,
            "recorded_at": now,
        }
        for fact in facts
    ]
    if rows:
        connection.execute(_insert(connection, usage_event).on_conflict_do_nothing(), rows)


def lost_at(connection: Connection, resource_id: str) -> datetime | None:
    """When a resource was last given up as lost."""
    query = sa.select(sa.func.max(usage_event.c.at)).where(
        usage_event.c.resource_id == resource_id, usage_event.c.kind == UsageKind.LOST
    )
    return connection.execute(query).scalar()


def events_for(connection: Connection, resource_ids: Sequence[str]) -> list[UsageEvent]:
    found: list[UsageEvent] = []
    for start in range(0, len(resource_ids), _BATCH):
        some = usage_event.c.resource_id.in_(resource_ids[start : start + _BATCH])
        found += [
            UsageEvent(r.key, r.resource_id, r.at, UsageKind(r.kind), r.estimated)
            for r in connection.execute(sa.select(usage_event).where(some))
        ]
    return found


def add_prices(connection: Connection, series: str, points: Iterable[PricePoint]) -> None:
    """Keep prices that are not known yet; a point never changes."""
    rows = [
        {"series": series, "at": p.at, "price": p.price, "currency": p.currency} for p in points
    ]
    if rows:
        connection.execute(_insert(connection, price_point).on_conflict_do_nothing(), rows)


def prices_for(connection: Connection, series: Iterable[str]) -> dict[str, list[PricePoint]]:
    query = sa.select(price_point).where(price_point.c.series.in_(list(series)))
    found: dict[str, list[PricePoint]] = {}
    for row in connection.execute(query.order_by(price_point.c.at)):
        found.setdefault(row.series, []).append(PricePoint(row.at, row.price, row.currency))
    return found


def reserve(
    connection: Connection,
    *,
    id: str,
    team_id: str,
    owner_id: str,
    amount: Decimal,
    currency: str,
    now: datetime,
) -> None:
    connection.execute(
        reservation.insert().values(
            id=id,
            team_id=team_id,
            owner_id=owner_id,
            amount=amount,
            currency=currency,
            created_at=now,
        )
    )


def release(connection: Connection, owner_id: str, now: datetime) -> None:
    """What was set aside for an owner is free again; its charges stay."""
    connection.execute(
        reservation.update()
        .where(reservation.c.owner_id == owner_id, reservation.c.released_at.is_(None))
        .values(released_at=now)
    )


def open_reservations(connection: Connection, team_id: str) -> list[Reservation]:
    query = sa.select(reservation).where(
        reservation.c.team_id == team_id, reservation.c.released_at.is_(None)
    )
    return [
        Reservation(r.id, r.owner_id, r.team_id, r.amount, r.currency, r.created_at)
        for r in connection.execute(query)
    ]


def budget_row(connection: Connection, team_id: str, *, lock: bool = False) -> RowMapping | None:
    """A team's budget with its zone; `lock` makes admissions of the team one after the other."""
    query = (
        sa.select(budget, team.c.name.label("team_name"), team.c.timezone)
        .join(team, team.c.id == budget.c.team_id)
        .where(budget.c.team_id == team_id)
    )
    if lock:
        query = query.with_for_update(of=budget)
    return connection.execute(query).mappings().first()


def team_zone(connection: Connection, team_id: str) -> str | None:
    """The IANA zone in which a team counts its days and months."""
    return connection.execute(sa.select(team.c.timezone).where(team.c.id == team_id)).scalar()


def _insert(connection: Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert: sqlite.Insert | postgresql.Insert = dialect.insert(table)
    return insert
