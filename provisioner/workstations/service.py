"""What people do with workstations: wishes go into rows, and the reconciler makes them true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from policies.world import Desire, InstanceState, Needs, OwnerKind, PurchaseMode, Resources
from provisioner.admission import RESERVED_FOR_A_WORKSTATION, ceiling
from provisioner.clock import Clock
from provisioner.errors import ConflictError, InvalidError, NotFoundError
from provisioner.ids import new_id, repeatable_id
from provisioner.ledger import admit
from provisioner.offers.market import Market
from provisioner.people import Actor, Role, team_id
from provisioner.store import commands, journal, ledger, people
from provisioner.store import workstations as rows
from provisioner.store.engine import Connection, Store
from provisioner.store.paging import Page, page
from provisioner.store.rows import Row
from provisioner.store.tables import workstation
from provisioner.store.targets import find
from provisioner.store.workstations import WorkstationRow
from provisioner.workstations.phase import phase_of
from provisioner.workstations.view import (
    CommandView,
    WorkstationView,
    command_view,
    machine_of,
    workstation_view,
)

HOLDS = ("keep-running", "keep-stopped")
COMMAND_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class NewWorkstation:
    """What is asked for. `mode` None leaves spot or on-demand to the policy."""

    name: str
    cpus: float = 1.0
    memory_gib: float = 1.0
    gpus: int = 0
    gpu_model: str | None = None
    mode: PurchaseMode | None = None
    provider: str | None = None
    region: str | None = None
    max_price_per_hour: Decimal | None = None
    volume_gib: int = 10
    team: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Workstations:
    """Desks: created, switched on and off, used, deleted."""

    def __init__(
        self, store: Store, clock: Clock, market: Market, poke: Callable[[], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._market = market
        self._poke = poke

    def create(self, actor: Actor, new: NewWorkstation, once: str | None = None) -> WorkstationView:
        """Write down the wish, with its share of the budget, in one transaction.

        The same request, as `once` names it, makes one workstation however often it is sent.

        Raises:
            InvalidError, RefusedError, BudgetExceededError: see `admission` and `ledger.admit`.
            ConflictError: the team has a workstation of this name.
        """
        now, id, volume_id = self._clock.now(), repeatable_id("ws", once), new_id("vol")
        needs = _needs(new)
        with self._store.write() as connection:
            of = team_id(connection, actor, new.team)
            made = rows.get(connection, id)
            if made is not None:
                return workstation_view(connection, made, people.names(connection))
            if find(connection, workstation, of, False, new.name) is not None:
                raise ConflictError(
                    f"There is a workstation {new.name!r} already.", remedy="Choose another name."
                )
            provider = self._admit(connection, actor, id, of, needs, dict(new.labels), now)
            rows.insert_volume(
                connection,
                id=volume_id,
                provider=provider,
                team_id=of,
                gib=new.volume_gib,
                now=now,
            )
            rows.insert(connection, _row(new, needs, id, of, actor.id, volume_id, now))
            journal.record(
                connection, now, "workstation.created", id, team_id=of, by=actor.id, name=new.name
            )
        self._poke()
        return self.get(actor, id)

    def list(self, actor: Actor, limit: int, cursor: str | None) -> Page[WorkstationView]:
        where = [workstation.c.deleted_at.is_(None)]
        mine = [] if actor.role is Role.ADMIN else [workstation.c.team_id == actor.team_id]
        with self._store.read() as connection:
            names = people.names(connection)

            def make(mapping: Row) -> WorkstationView:
                return workstation_view(connection, rows.from_mapping(mapping), names)

            return page(
                connection,
                workstation.select().where(*where, *mine),
                workstation,
                limit,
                cursor,
                make,
            )

    def get(self, actor: Actor, ref: str) -> WorkstationView:
        with self._store.read() as connection:
            row = self._row(connection, actor, ref)
            return workstation_view(connection, row, people.names(connection))

    def start(self, actor: Actor, ref: str) -> WorkstationView:
        """Switch it on; what a person starts outside the hours is kept until they next change."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            if row.desire is Desire.GONE:
                raise ConflictError(f"Workstation {row.name} is being deleted.")
            changes: dict[str, Any] = {
                "started_by_person_at": now,
                "warned_at": None,
                "trouble": None,
                "not_before": None,
            }
            if row.desire is not Desire.ON:
                self._admit(connection, actor, row.id, row.team_id, row.needs, row.labels, now)
                changes |= {"waiting_since": now}
            if row.hold_kind == "keep-stopped":
                changes |= {"hold_kind": None, "hold_until": None, "hold_by": None}
            rows.update(
                connection,
                row.id,
                desire=Desire.ON,
                desire_reason="person",
                last_activity_at=now,
                **changes,
            )
            _journal(connection, now, "workstation.started", row, actor)
        self._poke()
        return self.get(actor, row.id)

    def stop(self, actor: Actor, ref: str) -> WorkstationView:
        """Switch it off; it stays off until a person starts it."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            if row.desire is Desire.GONE:
                raise ConflictError(f"Workstation {row.name} is being deleted.")
            rows.update(
                connection,
                row.id,
                desire=Desire.OFF,
                desire_reason="person",
                warned_at=None,
                waiting_since=None,
            )
            ledger.release(connection, row.id, now)
            _journal(connection, now, "workstation.stopped", row, actor)
        self._poke()
        return self.get(actor, row.id)

    def delete(self, actor: Actor, ref: str) -> WorkstationView:
        """Delete it with its home; its costs stay in the books."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            rows.update(
                connection, row.id, desire=Desire.GONE, desire_reason="person", waiting_since=None
            )
            ledger.release(connection, row.id, now)
            _journal(connection, now, "workstation.deleted", row, actor)
        self._poke()
        return self.get(actor, row.id)

    def hold(self, actor: Actor, ref: str, kind: str, until: datetime | None) -> WorkstationView:
        """Overrule the policies until a time, or until `release`."""
        now = self._clock.now()
        if kind not in HOLDS:
            raise InvalidError(
                f"A hold of kind {kind!r} is unknown.", remedy=f"Use one of: {', '.join(HOLDS)}."
            )
        if until is not None and until <= now:
            raise InvalidError(f"{until.isoformat()} is in the past.", remedy="Give a later time.")
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            rows.update(
                connection,
                row.id,
                hold_kind=kind,
                hold_until=until,
                hold_by=actor.name,
                warned_at=None,
            )
            _journal(connection, now, "workstation.held", row, actor)
        self._poke()
        return self.get(actor, row.id)

    def release(self, actor: Actor, ref: str) -> WorkstationView:
        """End a hold."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            rows.update(connection, row.id, hold_kind=None, hold_until=None, hold_by=None)
            _journal(connection, now, "workstation.released", row, actor)
        self._poke()
        return self.get(actor, row.id)

    def exec(
        self,
        actor: Actor,
        ref: str,
        argv: Sequence[str],
        timeout_s: float = 60.0,
        once: str | None = None,
    ) -> CommandView:
        """Have the machine's agent run a command in the home folder. Counts as activity.

        The same request, as `once` names it, runs it one time however often it is sent.
        """
        if not argv or any("\x00" in part for part in argv) or not argv[0]:
            raise InvalidError("There is no command to run.", remedy="Put it after `--`.")
        if not 0 < timeout_s <= COMMAND_LIMIT_S:
            raise InvalidError(f"A timeout of {timeout_s} s is not within 0 to {COMMAND_LIMIT_S}.")
        now, id = self._clock.now(), repeatable_id("cmd", once)
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            asked = commands.get(connection, id)
            if asked is not None:
                return command_view(asked)
            machine = machine_of(connection, row.id)
            if machine is None or machine.state is not InstanceState.READY:
                phase, reason = phase_of(row, machine)
                raise ConflictError(
                    f"Workstation {row.name} is {phase} ({reason}), not ready.",
                    remedy=f"`roost workstation start {row.name} --wait` starts it.",
                )
            commands.insert(
                connection,
                id=id,
                workstation_id=row.id,
                instance_id=machine.id,
                asked_by=actor.id,
                argv=list(argv),
                timeout_s=timeout_s,
                now=now,
            )
            rows.update(connection, row.id, last_activity_at=now, warned_at=None)
            journal.record(
                connection, now, "command.asked", row.id, team_id=row.team_id, by=actor.id, id=id
            )
        return self.command(actor, id)

    def command(self, actor: Actor, id: str) -> CommandView:
        with self._store.read() as connection:
            row = commands.get(connection, id)
            if row is None:
                raise NotFoundError(f"There is no command {id!r} that you can see.")
            self._row(connection, actor, row["workstation_id"], change=True)
        return command_view(row)

    def _admit(
        self,
        connection: Connection,
        actor: Actor,
        id: str,
        of: str,
        needs: Needs,
        labels: dict[str, str],
        now: datetime,
    ) -> str:
        """Check policies and budget; the provider of the home."""
        names = people.names(connection)
        most = ceiling(
            connection,
            self._market,
            needs,
            OwnerKind.WORKSTATION,
            team=names[of],
            user=actor.name,
            labels=labels,
        )
        admit(
            connection,
            team_id=of,
            team_name=names[of],
            owner_id=id,
            amount=most.of(RESERVED_FOR_A_WORKSTATION),
            currency=most.currency,
            now=now,
        )
        return most.provider

    def _row(
        self,
        connection: Connection,
        actor: Actor,
        ref: str,
        *,
        change: bool = False,
    ) -> WorkstationRow:
        """A workstation of the actor's team; only its owner, leads and admins may change it."""
        admin = actor.role is Role.ADMIN
        id = find(connection, workstation, actor.team_id, admin, ref)
        row = rows.get(connection, id or ref)
        if row is None or (not admin and row.team_id != actor.team_id):
            raise NotFoundError(
                f"There is no workstation {ref!r} that you can see.",
                remedy="`roost workstation list` shows yours.",
            )
        if change and actor.role is Role.MEMBER and row.owner_id != actor.id:
            raise NotFoundError(f"Workstation {ref!r} is not yours.")
        return row


def _needs(new: NewWorkstation) -> Needs:
    return Needs(
        Resources(new.cpus, new.memory_gib, new.gpus, new.gpu_model),
        new.mode,
        new.provider,
        new.region,
        new.max_price_per_hour,
    )


def _row(
    new: NewWorkstation,
    needs: Needs,
    id: str,
    of: str,
    owner: str,
    volume_id: str,
    now: datetime,
) -> WorkstationRow:
    return WorkstationRow(
        id=id,
        name=new.name,
        team_id=of,
        owner_id=owner,
        needs=needs,
        labels=dict(new.labels),
        volume_id=volume_id,
        desire=Desire.ON,
        desire_reason="person",
        generation=1,
        attempt=0,
        hold_kind=None,
        hold_until=None,
        hold_by=None,
        last_activity_at=now,
        started_by_person_at=now,
        warned_at=None,
        waiting_since=now,
        not_before=None,
        trouble=None,
        created_at=now,
        deleted_at=None,
    )


def _journal(
    connection: Connection, now: datetime, kind: str, row: WorkstationRow, actor: Actor
) -> None:
    journal.record(connection, now, kind, row.id, team_id=row.team_id, by=actor.id)
