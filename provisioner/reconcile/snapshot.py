"""From rows to the one value that a decision is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from policies.language import Policy
from policies.selection import Target, in_order, select
from policies.world import (
    BudgetView,
    Condition,
    Desire,
    Hold,
    Instance,
    InstanceState,
    Job,
    JobState,
    Needs,
    OwnerKind,
    PurchaseMode,
    Snapshot,
    Workstation,
)
from provisioner.ids import new_id
from provisioner.jobs.settle import runtime
from provisioner.offers.market import Market, Request
from provisioner.store import cooldowns, instances, jobs, people, workstations
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.jobs import AttemptRow, JobRow
from provisioner.store.workstations import WorkstationRow

UNREACHABLE_AFTER = timedelta(seconds=60)

Names = Mapping[str, str]
Budgets = Callable[[Connection, datetime], Iterable[BudgetView]]


def take(
    connection: Connection,
    market: Market,
    policies: Sequence[Policy],
    budgets: Budgets,
    now: datetime,
) -> Snapshot:
    """The world as of now. Offers on cooldown are in it, and the cooldowns too.

    Of a large catalogue it holds what may be bought under these policies for whatever waits.
    """
    names = people.names(connection)
    live = instances.live(connection)
    by_owner: dict[str, list[InstanceRow]] = {}
    for row in live:
        if row.owner_id is not None:
            by_owner.setdefault(row.owner_id, []).append(row)
    homes = workstations.homes(connection)
    desks = [
        _workstation(row, homes[row.volume_id], by_owner.get(row.id, ()), names)
        for row in workstations.present(connection)
        if not _pauses(row, by_owner, now)
    ]
    attempts = jobs.attempts_of_unfinished(connection)
    work = [
        _job(row, attempts.get(row.id, []), by_owner.get(row.id, ()), names, now)
        for row in _jobs(connection, by_owner)
        if row.not_before is None or row.not_before <= now or row.state is not JobState.QUEUED
    ]
    waiting: list[Workstation | Job] = [*filter(_desk_waits, desks), *filter(_job_waits, work)]
    taken = _taken_from(connection, waiting)
    cooled = cooldowns.active(connection, now)
    asked = _requests(waiting, policies)
    offers, total = market.shortlist(asked, market.barriers(cooled, now))
    return Snapshot(
        id=new_id("snap"),
        now=now,
        offers=offers,
        instances=tuple(_instance(row, now) for row in live),
        workstations=tuple(replace(d, taken_from=taken.get(d.id)) for d in desks),
        jobs=tuple(replace(job, taken_from=taken.get(job.id)) for job in work),
        budgets=tuple(budgets(connection, now)),
        cooldowns=cooled,
        closures=market.closures,
        quotas=market.quotas,
        offers_total=total,
        team_timezones=people.timezones(connection),
    )


def _desk_waits(desk: Workstation) -> bool:
    return desk.desire is Desire.ON and desk.instance_id is None


def _job_waits(job: Job) -> bool:
    return job.state is JobState.QUEUED


def _requests(
    waiting: Iterable[Workstation | Job], policies: Sequence[Policy]
) -> Iterator[Request]:
    """What is to be bought; equal requests once."""
    known = in_order(policies)
    for needs, target in dict.fromkeys((owner.needs, Target.of(owner)) for owner in waiting):
        yield Request(needs, select(known, target))


def _taken_from(connection: Connection, waiting: Iterable[Workstation | Job]) -> dict[str, str]:
    """The zone in which the market took the last machine of an owner, for owners of whom it did."""
    last = instances.last_of_owners(connection, [owner.id for owner in waiting])
    return {
        id: "/".join((row.provider, row.offer.region, row.offer.zone))
        for id, row in last.items()
        if row.reason == "reclaimed" or row.notice_deadline is not None
    }


def _pauses(row: WorkstationRow, by_owner: Mapping[str, list[InstanceRow]], now: datetime) -> bool:
    """Whether it is not to be given a machine yet; one that has a machine is always looked at."""
    waits = row.not_before is not None and row.not_before > now
    return waits and row.desire is Desire.ON and row.id not in by_owner


def note_spot_drought(connection: Connection, market: Market, now: datetime) -> None:
    """Remember since when no spot offer could be had for a queued job.

    A cooldown that ends is no machine yet: only a job that runs has found one (see `settle`).
    """
    barriers = market.barriers(cooldowns.active(connection, now), now)
    had: dict[Needs, bool] = {}
    for row in jobs.without_spot_note(connection):
        if row.needs not in had:
            had[row.needs] = any(
                offer.mode is PurchaseMode.SPOT and barriers.reason(offer) is None
                for offer in market.catalogue.fitting(row.needs)
            )
        if not had[row.needs]:
            jobs.update(connection, row.id, no_spot_since=now)


def _jobs(connection: Connection, by_owner: Mapping[str, list[InstanceRow]]) -> list[JobRow]:
    """Unfinished jobs, and ended ones that still have machines."""
    rows = {row.id: row for row in jobs.unfinished(connection)}
    for owner_id, machines in by_owner.items():
        if owner_id not in rows and machines[0].owner_kind is OwnerKind.JOB:
            ended = jobs.get(connection, owner_id)
            if ended is not None:
                rows[owner_id] = ended
    return list(rows.values())


def _instance(row: InstanceRow, now: datetime) -> Instance:
    telemetry = (row.agent or {}).get("telemetry") or {}
    conditions = set()
    if row.notice_deadline is not None:
        conditions.add(Condition.INTERRUPTING)
    heard = row.agent_seen_at or row.created_at
    if row.state is InstanceState.READY and now - heard > UNREACHABLE_AFTER:
        conditions.add(Condition.UNREACHABLE)
    return Instance(
        id=row.id,
        owner_kind=row.owner_kind,
        owner_id=row.owner_id,
        attempt=row.attempt,
        state=row.state,
        offer=row.offer,
        created_at=row.created_at,
        ready_at=row.ready_at,
        agent_seen_at=row.agent_seen_at,
        cpu_percent=telemetry.get("cpu_percent"),
        gpu_percent=telemetry.get("gpu_percent"),
        notice_deadline=row.notice_deadline,
        conditions=frozenset(conditions),
    )


def _workstation(
    row: WorkstationRow,
    home: tuple[str, str | None],
    machines: Iterable[InstanceRow],
    names: Names,
) -> Workstation:
    """`home` is the provider and the zone of its volume, where its machine has to be."""
    provider, zone = home
    hold = None
    if row.hold_kind is not None:
        hold = Hold(row.hold_kind, row.hold_until, row.hold_by or "")
    return Workstation(
        id=row.id,
        name=row.name,
        team=names[row.team_id],
        user=names[row.owner_id],
        needs=replace(row.needs, provider=provider, zone=zone),
        desire=row.desire,
        generation=row.generation,
        instance_id=next((m.id for m in machines), None),
        last_activity_at=row.last_activity_at,
        started_by_person_at=row.started_by_person_at,
        labels=tuple(sorted(row.labels.items())),
        hold=hold,
        warned_at=row.warned_at,
        waiting_since=row.waiting_since,
    )


def _job(
    row: JobRow,
    attempts: list[AttemptRow],
    machines: Iterable[InstanceRow],
    names: Names,
    now: datetime,
) -> Job:
    is_open = bool(attempts) and attempts[-1].state == "open"
    used = runtime(attempts, now).total_seconds()
    left = row.max_runtime_s - used
    if row.step and row.total_steps and used > 0:
        left = min(left, used * (row.total_steps - row.step) / row.step)
    return Job(
        id=row.id,
        name=row.name,
        team=names[row.team_id],
        user=names[row.owner_id],
        needs=row.needs,
        state=row.state,
        attempt=row.attempt,
        queued_at=row.queued_at,
        instance_ids=tuple(m.id for m in machines if is_open and m.attempt == row.attempt),
        nodes=row.nodes,
        deadline=row.deadline,
        work_left_s=max(left, 0.0),
        labels=tuple(sorted(row.labels.items())),
        no_spot_since=row.no_spot_since,
    )
