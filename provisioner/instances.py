"""The machines as people see them, and rehearsing the loss of one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol, runtime_checkable

from policies.world import InstanceState, OwnerKind, PurchaseMode
from provisioner.clock import Clock
from provisioner.errors import ConflictError, InvalidError, NotFoundError
from provisioner.people import Actor, Role, require
from provisioner.providers.registry import Providers
from provisioner.store import instances as rows
from provisioner.store import journal
from provisioner.store.engine import Store
from provisioner.store.instances import InstanceRow
from provisioner.store.paging import Page, page
from provisioner.store.rows import Row
from provisioner.store.tables import instance


@runtime_checkable
class Rehearsing(Protocol):
    """A provider whose spot market can be told to take a machine."""

    def rehearse_reclaim(self, machine_id: str, notice_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class InstanceView:
    id: str
    owner_kind: OwnerKind
    owner_id: str | None
    state: InstanceState
    reason: str
    message: str | None
    conditions: tuple[str, ...]
    provider: str
    region: str
    zone: str
    instance_type: str
    mode: PurchaseMode
    price_per_hour: Decimal
    currency: str
    machine_id: str | None
    created_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    agent_seen_at: datetime | None
    notice_deadline: datetime | None
    cpu_percent: float | None
    memory_bytes: int | None


class Instances:
    """Machines, newest first."""

    def __init__(self, store: Store, clock: Clock, providers: Providers) -> None:
        self._store = store
        self._clock = clock
        self._providers = providers

    def list(
        self, actor: Actor, limit: int, cursor: str | None, live: bool = False
    ) -> Page[InstanceView]:
        where = [] if actor.role is Role.ADMIN else [instance.c.team_id == actor.team_id]
        if live:
            where.append(instance.c.state.in_(rows.LIVE))
        query = instance.select().where(*where)

        def make(mapping: Row) -> InstanceView:
            return view(rows.from_mapping(mapping))

        with self._store.read() as connection:
            return page(connection, query, instance, limit, cursor, make)

    def get(self, actor: Actor, id: str) -> InstanceView:
        return view(self._row(actor, id))

    def rehearse_reclaim(self, actor: Actor, id: str, notice_s: float) -> InstanceView:
        """Have the provider take a spot machine as its market would, after `notice_s` seconds.

        0 means without notice: everything on it is killed at once.
        """
        require(actor, Role.ADMIN, Role.LEAD)
        row = self._row(actor, id)
        provider = self._providers.get(row.provider)
        if not isinstance(provider, Rehearsing):
            raise InvalidError(
                f"Provider {row.provider} cannot rehearse a reclaim.",
                remedy="Use its own tools for it, such as a fault injection service.",
            )
        if row.offer.mode is not PurchaseMode.SPOT:
            raise InvalidError(
                f"Instance {id} is {row.offer.mode}, which no market takes back.",
                remedy="Rehearse with a spot machine.",
            )
        if row.machine_id is None or row.state is not InstanceState.READY:
            raise ConflictError(f"Instance {id} is {row.state}; wait until it is ready.")
        provider.rehearse_reclaim(row.machine_id, notice_s)
        now = self._clock.now()
        with self._store.write() as connection:
            journal.record(
                connection,
                now,
                "reclaim.rehearsed",
                id,
                team_id=row.team_id,
                by=actor.id,
                notice_s=notice_s,
            )
        return self.get(actor, id)

    def _row(self, actor: Actor, id: str) -> InstanceRow:
        with self._store.read() as connection:
            row = rows.get(connection, id)
        if row is None or (actor.role is not Role.ADMIN and row.team_id != actor.team_id):
            raise NotFoundError(f"There is no instance {id!r} that you can see.")
        return row


def view(row: InstanceRow) -> InstanceView:
    """An instance as people see it."""
    telemetry = (row.agent or {}).get("telemetry") or {}
    offer = row.offer
    return InstanceView(
        id=row.id,
        owner_kind=row.owner_kind,
        owner_id=row.owner_id,
        state=row.state,
        reason=row.reason,
        message=row.message,
        conditions=("interrupting",) if row.notice_deadline and row.state.live else (),
        provider=offer.provider,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        mode=offer.mode,
        price_per_hour=offer.price_per_hour,
        currency=offer.currency,
        machine_id=row.machine_id,
        created_at=row.created_at,
        ready_at=row.ready_at,
        ended_at=row.ended_at,
        agent_seen_at=row.agent_seen_at,
        notice_deadline=row.notice_deadline,
        cpu_percent=telemetry.get("cpu_percent"),
        memory_bytes=telemetry.get("memory_bytes"),
    )
