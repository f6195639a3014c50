"""Instance rows: the machines that Roost holds, held, or is about to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from policies.world import InstanceState, Offer, OwnerKind
from provisioner.errors import ConflictError
from provisioner.states import check_instance_move
from provisioner.store import journal
from provisioner.store.codec import offer_from_json, offer_to_json
from provisioner.store.tables import attempt, instance


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One machine; columns as in the table."""

    id: str
    owner_kind: OwnerKind
    owner_id: str | None
    team_id: str | None
    generation: int
    attempt: int
    slot: int
    launch_id: str
    provider: str
    machine_id: str | None
    offer: Offer
    on_demand_price: Decimal | None
    volume_id: str | None
    state: InstanceState
    reason: str
    message: str | None
    state_since: datetime
    created_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    missing_count: int
    last_listed_at: datetime | None
    agent_seen_at: datetime | None
    agent_boot_id: str | None
    agent: dict[str, Any] | None
    """The last heartbeat's body."""
    notice_deadline: datetime | None
    bootstrap_sha256: str | None
    agent_sha256: str | None
    decision_id: str | None
    alternatives: tuple[Offer, ...] = ()
    """Offers that the provider may make it of instead."""

    @property
    def seen_at(self) -> datetime:
        """When it last showed a sign of life: to its provider, or by its agent."""
        return max(t for t in (self.agent_seen_at, self.last_listed_at, self.created_at) if t)


_BATCH = 1000
LIVE = tuple(state.value for state in InstanceState if state.live)


def insert(connection: Connection, row: InstanceRow) -> None:
    values = {name: getattr(row, name) for name in InstanceRow.__dataclass_fields__}
    values["offer"] = offer_to_json(row.offer)
    values["alternatives"] = [offer_to_json(offer) for offer in row.alternatives] or None
    connection.execute(instance.insert().values(values))
    journal.record(
        connection,
        row.created_at,
        "instance.planned",
        row.id,
        team_id=row.team_id,
        offer=row.offer.id,
        owner=row.owner_id,
        decision=row.decision_id,
    )


def get(connection: Connection, id: str) -> InstanceRow | None:
    return _first(connection, instance.c.id == id)


def by_launch_id(connection: Connection, launch_id: str) -> InstanceRow | None:
    return _first(connection, instance.c.launch_id == launch_id)


def by_agent(connection: Connection, sha256: str) -> InstanceRow | None:
    return _first(connection, instance.c.agent_sha256 == sha256)


def by_bootstrap(connection: Connection, sha256: str) -> InstanceRow | None:
    """Locked, so that of two machines with one token only the first registers."""
    query = sa.select(instance).where(instance.c.bootstrap_sha256 == sha256).with_for_update()
    mapping = connection.execute(query).mappings().first()
    return None if mapping is None else from_mapping(mapping)


def live(connection: Connection, provider: str | None = None) -> list[InstanceRow]:
    """All instances that may still exist, oldest first."""
    where: list[sa.ColumnElement[bool]] = [instance.c.state.in_(LIVE)]
    if provider is not None:
        where.append(instance.c.provider == provider)
    return select(connection, *where)


def overdue(
    connection: Connection, states: Iterable[InstanceState], silent_since: datetime
) -> list[InstanceRow]:
    """The instances in these states, and the READY ones whose agent was not heard since."""
    heard = instance.c.agent_seen_at
    silent = sa.and_(
        instance.c.state == InstanceState.READY, sa.or_(heard.is_(None), heard < silent_since)
    )
    return select(connection, sa.or_(instance.c.state.in_(list(states)), silent))


@dataclass(frozen=True, slots=True)
class Bought:
    """What an instance was bought at, and since when."""

    offer: Offer
    created_at: datetime
    state_since: datetime
    live: bool


def bought(connection: Connection, provider: str, since: datetime) -> list[Bought]:
    """Of the live instances of a provider, and of those that have ended since."""
    is_there = sa.or_(instance.c.state.in_(LIVE), instance.c.state_since >= since)
    query = sa.select(
        instance.c.offer, instance.c.created_at, instance.c.state_since, instance.c.state
    ).where(instance.c.provider == provider, is_there)
    return [
        Bought(offer_from_json(offer), created_at, state_since, state in LIVE)
        for offer, created_at, state_since, state in connection.execute(query)
    ]


def of_owner(connection: Connection, owner_id: str) -> list[InstanceRow]:
    """All instances an owner ever had, oldest first."""
    return select(connection, instance.c.owner_id == owner_id)


def live_of_owner(connection: Connection, owner_id: str) -> list[InstanceRow]:
    """The instances of an owner that may still exist, oldest first."""
    return select(connection, instance.c.owner_id == owner_id, instance.c.state.in_(LIVE))


def of_open_attempts(connection: Connection) -> dict[str, list[InstanceRow]]:
    """The machines of each job's open attempt, ended ones too, by job."""
    query = (
        sa.select(*_COLUMNS)
        .join(
            attempt,
            (attempt.c.job_id == instance.c.owner_id) & (attempt.c.number == instance.c.attempt),
        )
        .where(attempt.c.state == "open", instance.c.created_at >= attempt.c.created_at)
        .order_by(instance.c.created_at, instance.c.id)
    )
    found: dict[str, list[InstanceRow]] = {}
    for row in map(_from_row, connection.execute(query)):
        found.setdefault(row.owner_id or "", []).append(row)
    return found


def select(connection: Connection, *where: sa.ColumnElement[bool]) -> list[InstanceRow]:
    query = sa.select(*_COLUMNS).where(*where).order_by(instance.c.created_at, instance.c.id)
    return [_from_row(row) for row in connection.execute(query)]


def move(
    connection: Connection,
    row: InstanceRow,
    state: InstanceState,
    reason: str,
    now: datetime,
    *,
    message: str | None = None,
    **changes: Any,
) -> InstanceRow:
    """Take an instance to another state, if it is still in the state of `row`.

    Raises:
        ConflictError: the move is not allowed, or somebody else moved it meanwhile.
    """
    check_instance_move(row.id, row.state, state)
    values = {"state": state, "reason": reason, "message": message, "state_since": now, **changes}
    if not state.live:
        values["ended_at"] = changes.get("ended_at") or now
    result = connection.execute(
        instance.update()
        .where(instance.c.id == row.id, instance.c.state == row.state)
        .values(values)
    )
    if result.rowcount != 1:
        raise ConflictError(f"instance {row.id} is no longer {row.state}")
    journal.record(
        connection,
        now,
        "instance.moved",
        row.id,
        team_id=row.team_id,
        old=row.state,
        new=state,
        reason=reason,
        message=message,
    )
    moved = get(connection, row.id)
    assert moved is not None
    return moved


def update(connection: Connection, id: str, **values: Any) -> None:
    """Change facts beside the state."""
    connection.execute(instance.update().where(instance.c.id == id).values(values))


def note_offer(connection: Connection, row: InstanceRow, offer_id: str, now: datetime) -> None:
    """The machine was made of this one of its alternatives."""
    found = next((offer for offer in row.alternatives if offer.id == offer_id), None)
    if found is not None and row.offer.id != offer_id:
        update(connection, row.id, offer=offer_to_json(found))
        journal.record(
            connection, now, "instance.chosen", row.id, team_id=row.team_id, offer=offer_id
        )


def note_notice(
    connection: Connection, row: InstanceRow, deadline: datetime, now: datetime
) -> None:
    """The machine will be taken at `deadline`, as its agent or its provider says; told once."""
    if row.notice_deadline is None:
        update(connection, row.id, notice_deadline=deadline)
        journal.record(
            connection,
            now,
            "instance.noticed",
            row.id,
            team_id=row.team_id,
            deadline=deadline.isoformat(),
        )


def last_of_owners(connection: Connection, owner_ids: Iterable[str]) -> dict[str, InstanceRow]:
    """The newest instance of each owner that ever had one."""
    found: dict[str, InstanceRow] = {}
    ids = list(owner_ids)
    for start in range(0, len(ids), _BATCH):
        for row in select(connection, instance.c.owner_id.in_(ids[start : start + _BATCH])):
            found[row.owner_id or ""] = row
    return found


def count_missing(connection: Connection, ids: Iterable[str]) -> None:
    """These live instances were not in a full listing."""
    _update_all(connection, ids, missing_count=instance.c.missing_count + 1)


def count_listed(connection: Connection, ids: Iterable[str], now: datetime) -> None:
    """These live instances were in a listing."""
    _update_all(connection, ids, missing_count=0, last_listed_at=now)


def _update_all(connection: Connection, ids: Iterable[str], **values: Any) -> None:
    known = list(ids)
    for start in range(0, len(known), _BATCH):  # few enough for the parameters of one statement
        some = instance.c.id.in_(known[start : start + _BATCH])
        connection.execute(instance.update().where(some).values(values))


def _first(connection: Connection, where: sa.ColumnElement[bool]) -> InstanceRow | None:
    mapping = connection.execute(sa.select(instance).where(where)).mappings().first()
    return None if mapping is None else from_mapping(mapping)


def from_mapping(mapping: RowMapping) -> InstanceRow:
    """The typed row."""
    return _from_row([mapping[name] for name in _FIELDS])


def _from_row(values: Sequence[Any]) -> InstanceRow:
    """The typed row of the values of `_COLUMNS`; there are many of them in each tick."""
    typed = list(values)
    for at, read in _READERS:
        typed[at] = read(typed[at])
    return InstanceRow(*typed)


_FIELDS = tuple(InstanceRow.__dataclass_fields__)
_COLUMNS = tuple(instance.c[name] for name in _FIELDS)
_READERS: tuple[tuple[int, Callable[[Any], Any]], ...] = (
    (_FIELDS.index("owner_kind"), OwnerKind),
    (_FIELDS.index("state"), InstanceState),
    (_FIELDS.index("offer"), offer_from_json),
    (_FIELDS.index("alternatives"), lambda some: tuple(map(offer_from_json, some or ()))),
)
