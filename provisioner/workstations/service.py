"""What people do with workstations: wishes go into rows, and the reconciler makes them true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from policies.world import Desire, InstanceState, Needs, OwnerKind, PurchaseMode, Resources
from provisioner import instances
from provisioner.admission import RESERVED_FOR_A_WORKSTATION, ceiling
from provisioner.clock import Clock
from provisioner.errors import ConflictError, InvalidError, NotFoundError
from provisioner.ids import new_id
from provisioner.instances import InstanceView
from provisioner.ledger import admit
from provisioner.offers.catalogue import Catalogue
from provisioner.people import Actor, Role, team_id
from provisioner.store import commands, journal, ledger, people
from provisioner.store import instances as instance_rows
from provisioner.store import workstations as rows
from provisioner.store.engine import Connection, Store
from provisioner.store.instances import InstanceRow
from provisioner.store.paging import Page, page
from provisioner.store.rows import Row
from provisioner.store.tables import workstation
from provisioner.store.targets import find
from provisioner.store.workstations import WorkstationRow
from provisioner.workstations.phase import Phase, phase_of

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


@dataclass(frozen=True, slots=True)
class WorkstationView:
    id: str
    name: str
    team_id: str
    team_name: str
    owner_id: str
    owner_name: str
    phase: Phase
    reason: str
    desire: Desire
    desire_reason: str
    needs: Needs
    labels: Mapping[str, str]
    volume_id: str
    instance: InstanceView | None
    last_activity_at: datetime | None
    hold_kind: str | None
    hold_until: datetime | None
    created_at: datetime
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class CommandView:
    """A command run on a workstation; `state` is queued, done or failed."""

    id: str
    workstation_id: str
    argv: Sequence[str]
    state: str
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class Workstations:
    """Desks: created, switched on and off, used, deleted."""

    def __init__(
        self, store: Store, clock: Clock, catalogue: Catalogue, poke: Callable[[], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._catalogue = catalogue
        self._poke = poke

    def create(self, actor: Actor, new: NewWorkstation) -> WorkstationView:
        """Write down the wish, with its share of the budget, in one transaction.

        Raises:
            InvalidError, RefusedError, BudgetExceededError: see `admission` and `ledger.admit`.
            ConflictError: the team has a workstation of this name.
        """
        now, id, volume_id = self._clock.now(), new_id("ws"), new_id("vol")
        needs = _needs(new)
        with self._store.write() as connection:
            of = team_id(connection, actor, new.team)
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
                return _view(connection, rows.from_mapping(mapping), names)

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
            return _view(connection, row, people.names(connection))

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
        self, actor: Actor, ref: str, argv: Sequence[str], timeout_s: float = 60.0
    ) -> CommandView:
        """Have the machine's agent run a command in the home folder. Counts as activity."""
        if not argv or any("\x00" in part for part in argv) or not argv[0]:
            raise InvalidError("There is no command to run.", remedy="Put it after `--`.")
        if not 0 < timeout_s <= COMMAND_LIMIT_S:
            raise InvalidError(f"A timeout of {timeout_s} s is not within 0 to {COMMAND_LIMIT_S}.")
        now, id = self._clock.now(), new_id("cmd")
        with self._store.write() as connection:
            row = self._row(connection, actor, ref, change=True)
            machine = _machine(connection, row.id)
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
        result = row["result"] or {}
        return CommandView(
            id=row["id"],
            workstation_id=row["workstation_id"],
            argv=row["argv"],
            state=row["state"],
            exit_code=result.get("exit_code"),
            stdout=result.get("stdout", ""),
            stderr=result.get("stderr", ""),
            truncated=result.get("truncated", False),
            timed_out=result.get("timed_out", False),
            error=result.get("error"),
            created_at=row["created_at"],
            ended_at=row["ended_at"],
        )

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
            self._catalogue,
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


def _machine(connection: Connection, id: str) -> InstanceRow | None:
    live = instance_rows.live_of_owner(connection, id)
    return live[-1] if live else None


def _view(connection: Connection, row: WorkstationRow, names: dict[str, str]) -> WorkstationView:
    machine = _machine(connection, row.id)
    phase, reason = phase_of(row, machine)
    return WorkstationView(
        id=row.id,
        name=row.name,
        team_id=row.team_id,
        team_name=names[row.team_id],
        owner_id=row.owner_id,
        owner_name=names[row.owner_id],
        phase=phase,
        reason=reason,
        desire=row.desire,
        desire_reason=row.desire_reason,
        needs=row.needs,
        labels=row.labels,
        volume_id=row.volume_id,
        instance=None if machine is None else instances.view(machine),
        last_activity_at=row.last_activity_at,
        hold_kind=row.hold_kind,
        hold_until=row.hold_until,
        created_at=row.created_at,
        deleted_at=row.deleted_at,
    )


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
