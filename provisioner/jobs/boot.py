"""Where the time went between the decision to launch a machine and a job's first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cost.usage import UsageKind
from provisioner.store import actions, journal, ledger
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.jobs import AttemptRow
from provisioner.store.rows import Row


@dataclass(frozen=True, slots=True)
class BootView:
    """Seconds by part, one after the other; None where it has not happened, or nobody saw it.

    They are taken from several clocks (the provider's, the machine's), so a part may be a little
    too short and its neighbour too long; none is below 0.
    """

    accept_s: float | None = None
    """From the decision until the provider accepted the launch, all tries together."""
    provision_s: float | None = None
    """From there until the machine ran, as the provider counts it."""
    boot_s: float | None = None
    """From there until the agent on it called in for the first time."""
    task_s: float | None = None
    """From there until the job's processes ran."""
    first_step_s: float | None = None
    """From there until the job had done its first step."""
    agent_s: Mapping[str, float] = field(default_factory=dict)
    """Parts of `boot_s` that the agent measured itself: fetch, home, packages."""


def boots(
    connection: Connection,
    attempts: Sequence[AttemptRow],
    machines: Mapping[int, InstanceRow],
) -> dict[int, BootView]:
    """How each attempt's first node came up, by the attempt's number."""
    ids = [machine.id for machine in machines.values()]
    accepted = actions.launched_at(connection, ids)
    called = journal.first_of(connection, "agent.registered", ids)
    ran: dict[str, datetime] = {}
    for event in ledger.events_for(connection, ids):
        if event.kind is UsageKind.STARTED:
            ran[event.instance_id] = min(event.at, ran.get(event.instance_id, event.at))
    return {
        attempt.number: _boot(
            attempt, machine, accepted.get(machine.id), ran.get(machine.id), called.get(machine.id)
        )
        for attempt in attempts
        if (machine := machines.get(attempt.number)) is not None
    }


def _boot(
    attempt: AttemptRow,
    machine: InstanceRow,
    accepted: datetime | None,
    ran: datetime | None,
    call: Row | None,
) -> BootView:
    called = None if call is None else call["at"]
    facts = {} if call is None else call["body"].get("facts") or {}
    return BootView(
        accept_s=_seconds(machine.created_at, accepted),
        provision_s=_seconds(accepted, ran),
        boot_s=_seconds(ran, called),
        task_s=_seconds(called, attempt.running_at),
        first_step_s=_seconds(attempt.running_at, attempt.first_step_at),
        agent_s=_parts(facts.get("boot_s")),
    )


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return max(0.0, round((end - start).total_seconds(), 3))


def _parts(told: object) -> dict[str, float]:
    """What a machine says of itself is taken for what it is: names and numbers, or nothing."""
    if not isinstance(told, dict):
        return {}
    return {
        str(part)[:64]: float(seconds)
        for part, seconds in told.items()
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0
    }
