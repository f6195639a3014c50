"""Workstations and their commands as people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from policies.world import Desire, Needs
from provisioner import instances
from provisioner.instances import InstanceView
from provisioner.store import instances as instance_rows
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.rows import Row
from provisioner.store.workstations import WorkstationRow
from provisioner.workstations.phase import Phase, phase_of


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


def machine_of(connection: Connection, id: str) -> InstanceRow | None:
    """The live machine of a workstation."""
    live = instance_rows.live_of_owner(connection, id)
    return live[-1] if live else None


def workstation_view(
    connection: Connection, row: WorkstationRow, names: dict[str, str]
) -> WorkstationView:
    """A workstation as of now."""
    machine = machine_of(connection, row.id)
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


def command_view(row: Row) -> CommandView:
    """A command, with its answer once there is one."""
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
