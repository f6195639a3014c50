"""What must hold after any crash, held against what the provider itself has on record.

Each check returns what it found wrong, in words; nothing wrong is an empty list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

from cost.ledger import ResourceKind, total
from cost.periods import Period
from provisioner.ledger import Entry, entries
from provisioner.providers.contract import Machine, MachineState
from provisioner.providers.local.meter import Run, runs
from provisioner.store import actions, instances
from provisioner.store.instances import InstanceRow
from tests.crash.controlplane import FOREVER
from tests.crash.plane import Plane
from tests.crash.scenario import STEPS, Expected

_EXACT = Decimal("1e-9")
_CENT = Decimal("0.01")


def faults(plane: Plane, expected: Expected) -> list[str]:
    """All that is wrong once everything has ended."""
    return [
        *leaks(plane),
        *twins(plane),
        *_runs(plane, expected),
        *_actions(plane),
        *_jobs(plane, expected),
        *_money(plane, expected),
    ]


def leaks(plane: Plane) -> list[str]:
    """Machines that run and that nothing in the rows will end, and processes without a machine."""
    machines = {machine.id: machine for machine in plane.provider.list().machines}
    live = [m for m in machines.values() if m.state is not MachineState.TERMINATED]
    found = [why for machine in live if (why := _unowned(plane, machine))]
    if not live and (left := plane.processes()):
        found.append(f"leak: no machine lives, but the processes {left}")
    return found


def twins(plane: Plane) -> list[str]:
    """Owners who at any time had two machines that ran, by the provider's meter."""
    found = []
    for owner, spans in _runs_by_owner(plane).items():
        for before, after in pairwise(spans):
            if before.end is None or after.start < before.end:
                found.append(f"twin: {owner} was charged for {before} and {after} at once")
    return found


def _unowned(plane: Plane, machine: Machine) -> str | None:
    with plane.roost.store.read() as connection:
        row = instances.by_launch_id(connection, machine.launch_id)
        if row is None or not row.state.live:
            return f"leak: {machine.id} is {machine.state} without a live row"
        if row.state.value == "terminating" and not actions.has_open(connection, row.id):
            return f"leak: {machine.id} is {machine.state}, and nobody asks for its end"
    return None


def _runs(plane: Plane, expected: Expected) -> list[str]:
    found = []
    live = [m for m in plane.provider.list().machines if m.state is not MachineState.TERMINATED]
    if live:
        found.append(f"leak: at the end there live {[m.id for m in live]}")
    per_owner = {owner: len(spans) for owner, spans in _runs_by_owner(plane).items()}
    if per_owner != expected.runs:
        found.append(f"the runs by owner are {per_owner}, not {expected.runs}")
    sold = {m.id for m in plane.provider.list().machines}
    if len(sold) != len(expected.runs) + len(expected.strays):
        found.append(f"twin: the machines sold are {sorted(sold)}")
    return found


def _runs_by_owner(plane: Plane) -> dict[str, list[Run]]:
    """By the tag that says which row a machine was launched for."""
    meter = plane.roost.folder.machines / "meter"
    found: dict[str, list[Run]] = defaultdict(list)
    for machine in plane.provider.list().machines:
        row = _row_of(plane, machine)
        if row is not None and row.owner_id is not None:
            found[row.owner_id] += runs(str(meter / f"{machine.id}.jsonl"))
    return {owner: sorted(spans, key=lambda run: run.start) for owner, spans in found.items()}


def _row_of(plane: Plane, machine: Machine) -> InstanceRow | None:
    id = dict(machine.tags).get("instance")
    with plane.roost.store.read() as connection:
        return instances.get(connection, id) if id else None


def _actions(plane: Plane) -> list[str]:
    with plane.roost.store.read() as connection:
        still = actions.due(connection, FOREVER)
    return [f"the action {action.kind} of {action.subject_id} is still open" for action in still]


def _jobs(plane: Plane, expected: Expected) -> list[str]:
    found = []
    for id in expected.jobs:
        job = plane.get(f"/v1/jobs/{id}")
        if (job["state"], job["attempt"]) != ("succeeded", 1):
            found.append(f"job: {job['state']} ({job['reason']}) at attempt {job['attempt']}")
        records = plane.get(f"/v1/jobs/{id}/progress")["items"]
        steps = [record["step"] for record in records if record.get("event") == "step"]
        if steps != list(range(1, STEPS + 1)):
            found.append(f"job: the steps told are {steps}")
    return found


def _money(plane: Plane, expected: Expected) -> list[str]:
    """The books against the provider's bill, which knows nothing of them."""
    now = plane.roost.clock.now()
    begin = now - timedelta(days=1)
    with plane.roost.store.read() as connection:
        booked = entries(connection, Period(begin, FOREVER), now)
    bill = plane.provider.bill(begin, FOREVER)
    for stray in expected.strays:
        bill.pop(stray, None)  # nobody asked for it: it is in nobody's books
    machines = _amounts(booked, ResourceKind.INSTANCE)
    found = [
        f"money: {id} is booked at {machines.get(id)} and billed at {bill.get(id)}"
        for id in sorted(machines.keys() | bill.keys())
        if abs(machines.get(id, Decimal(0)) - bill.get(id, Decimal(0))) > _EXACT
    ]
    homes = _amounts(booked, ResourceKind.VOLUME)
    stored = plane.provider.bill_storage(begin, FOREVER)
    off = sum(homes.values(), Decimal(0)) - sum(stored.values(), Decimal(0))
    if homes.keys() != stored.keys() or abs(off) > _CENT:
        found.append(f"money: the homes are booked at {homes} and billed at {stored}")
    for entry in booked:
        found += [
            f"money: {entry.resource.name} has a doubtful interval {interval}"
            for interval in entry.intervals
            if interval.open or interval.estimated
        ]
    return found


def _amounts(booked: Iterable[Entry], kind: ResourceKind) -> dict[str, Decimal]:
    named = {ResourceKind.INSTANCE: "name", ResourceKind.VOLUME: "id"}[kind]
    return {
        getattr(entry.resource, named): total(entry.charges)
        for entry in booked
        if entry.resource.kind is kind
    }
