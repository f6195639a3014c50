"""What people do with training jobs: submitted into the queue, watched, cancelled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from policies.world import JobState, Needs, OwnerKind, PurchaseMode, Resources
from provisioner.admission import ceiling
from provisioner.clock import Clock
from provisioner.errors import ConflictError, InvalidError, NotFoundError
from provisioner.ids import repeatable_id
from provisioner.jobs.view import JobView, job_view
from provisioner.ledger import admit
from provisioner.offers.market import Market
from provisioner.people import Actor, Role, team_id
from provisioner.store import jobs as rows
from provisioner.store import journal, ledger, people, telemetry
from provisioner.store.engine import Connection, Store
from provisioner.store.jobs import JobRow
from provisioner.store.paging import Page, page, position_cursor, position_of
from provisioner.store.rows import Row
from provisioner.store.tables import job
from provisioner.store.targets import find

RECIPES = ("image-classification",)
LOG_PAGE = 200


@dataclass(frozen=True, slots=True)
class NewJob:
    """What is asked for: a command (`argv`) or a recipe with its config, never both."""

    name: str
    argv: list[str] | None = None
    recipe: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    cpus: float = 1.0
    memory_gib: float = 1.0
    gpus: int = 0
    gpu_model: str | None = None
    nodes: int = 1
    mode: PurchaseMode | None = None
    provider: str | None = None
    region: str | None = None
    max_price_per_hour: Decimal | None = None
    deadline: datetime | None = None
    max_runtime_s: float = 3600.0
    """The longest it may run, over all attempts; this much of the budget is set aside."""
    checkpoint_uri: str | None = None
    """Where its checkpoints go; None: a folder of its own in the state folder."""
    env: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    grace_s: float = 30.0
    team: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Log text, where to go on from, and whether nothing more will come."""

    text: str
    next: str | None
    ended: bool


class Jobs:
    """The queue as people see it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        market: Market,
        folder: Path,
        poke: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._market = market
        self._folder = folder
        self._poke = poke

    def submit(self, actor: Actor, new: NewJob, once: str | None = None) -> JobView:
        """Queue a job, with its share of the budget, in one transaction.

        The same request, as `once` names it, makes one job however often it is sent.

        Raises:
            InvalidError: it makes no sense: no command, a deadline in the past, several nodes.
            RefusedError, BudgetExceededError: see `admission` and `ledger.admit`.
        """
        now, id = self._clock.now(), repeatable_id("job", once)
        task = _task(new)
        _check(new, now)
        needs = Needs(
            Resources(new.cpus, new.memory_gib, new.gpus, new.gpu_model),
            new.mode,
            new.provider,
            new.region,
            new.max_price_per_hour,
        )
        uri = new.checkpoint_uri or (self._folder / id / "checkpoints").as_uri()
        with self._store.write() as connection:
            of = team_id(connection, actor, new.team)
            names = people.names(connection)
            made = rows.get(connection, id)
            if made is not None:
                return job_view(connection, made, names, now)
            most = ceiling(
                connection,
                self._market,
                needs,
                OwnerKind.JOB,
                team=names[of],
                user=actor.name,
                labels=dict(new.labels),
                has_deadline=new.deadline is not None,
            )
            admit(
                connection,
                team_id=of,
                team_name=names[of],
                owner_id=id,
                amount=most.of(timedelta(seconds=new.max_runtime_s)) * new.nodes,
                currency=most.currency,
                now=now,
            )
            rows.insert(connection, _row(new, needs, task, id, of, actor.id, uri, now))
            journal.record(
                connection, now, "job.submitted", id, team_id=of, by=actor.id, name=new.name
            )
        self._poke()
        return self.get(actor, id)

    def list(
        self, actor: Actor, limit: int, cursor: str | None, state: JobState | None = None
    ) -> Page[JobView]:
        where = [] if actor.role is Role.ADMIN else [job.c.team_id == actor.team_id]
        if state is not None:
            where.append(job.c.state == state)
        now = self._clock.now()
        with self._store.read() as connection:
            names = people.names(connection)

            def make(mapping: Row) -> JobView:
                return job_view(connection, rows.from_mapping(mapping), names, now)

            return page(connection, job.select().where(*where), job, limit, cursor, make)

    def get(self, actor: Actor, ref: str) -> JobView:
        with self._store.read() as connection:
            row = self._row(connection, actor, ref)
            names = people.names(connection)
            return job_view(connection, row, names, self._clock.now(), boots=True)

    def cancel(self, actor: Actor, ref: str) -> JobView:
        """End a job; its machines go, its checkpoints stay."""
        now = self._clock.now()
        with self._store.write() as connection:
            row = self._row(connection, actor, ref)
            if actor.role is Role.MEMBER and row.owner_id != actor.id:
                raise NotFoundError(f"Job {ref!r} is not yours.")
            if row.state is JobState.CANCELLED:
                return job_view(connection, row, people.names(connection), self._clock.now())
            if row.state.ended:
                raise ConflictError(f"Job {row.name} has ended already: {row.state}.")
            attempt = rows.open_attempt(connection, row)
            if attempt is not None:
                rows.update_attempt(
                    connection, attempt.id, state="cancelled", reason="person", ended_at=now
                )
            rows.move(connection, row, JobState.CANCELLED, "person", now)
            ledger.release(connection, row.id, now)
        self._poke()
        return self.get(actor, row.id)

    def logs(self, actor: Actor, ref: str, cursor: str | None) -> LogPage:
        """The next piece of the log of all attempts, from the cursor on."""
        with self._store.read() as connection:
            row = self._row(connection, actor, ref)
            start = position_of(cursor)
            chunks = telemetry.log_chunks(connection, row.id, start, LOG_PAGE)
            more = len(chunks) == LOG_PAGE
            end = start + len(chunks)
            ended = row.state.ended and not more
            return LogPage("".join(chunks), position_cursor(end), ended)

    def progress(
        self, actor: Actor, ref: str, limit: int, cursor: str | None
    ) -> Page[dict[str, Any]]:
        """Progress records of all attempts in order, each with its attempt's number."""
        with self._store.read() as connection:
            row = self._row(connection, actor, ref)
            start = position_of(cursor)
            found = telemetry.progress_records(connection, row.id)
            end = start + limit
            more = position_cursor(end) if end < len(found) else None
            return Page(tuple(found[start:end]), more)

    def _row(self, connection: Connection, actor: Actor, ref: str) -> JobRow:
        admin = actor.role is Role.ADMIN
        id = find(connection, job, actor.team_id, admin, ref)
        row = rows.get(connection, id) if id is not None else None
        if row is None:
            raise NotFoundError(
                f"There is no job {ref!r} that you can see.", remedy="`roost job list` shows yours."
            )
        return row


def _task(new: NewJob) -> dict[str, Any]:
    if (new.argv is None) == (new.recipe is None):
        raise InvalidError(
            "A job runs either a command or a recipe.",
            remedy="Put the command after `--`, or name a recipe with --recipe.",
        )
    if new.recipe is not None:
        if new.recipe not in RECIPES:
            raise InvalidError(
                f"There is no recipe {new.recipe!r}.", remedy=f"Use one of: {', '.join(RECIPES)}."
            )
        config = json.dumps(dict(new.config), sort_keys=True)
        argv = ["python", "-m", "trainer_agent.recipes", new.recipe, "--config", config]
    else:
        argv = list(new.argv or ())
        if new.config:
            raise InvalidError("A command has no config.", remedy="Give it as its arguments.")
    if not argv or not argv[0] or any("\x00" in part for part in argv):
        raise InvalidError("The job's command is empty.", remedy="Put the command after `--`.")
    return {
        "argv": argv,
        "env": dict(new.env),
        "nproc": 1,
        "threads": new.threads,
        "grace_s": new.grace_s,
    }


def _check(new: NewJob, now: datetime) -> None:
    if new.deadline is not None and new.deadline <= now:
        raise InvalidError(
            f"The deadline {new.deadline.isoformat()} is in the past.",
            remedy="Give a later one, or none.",
        )
    if new.nodes != 1:
        raise InvalidError(
            f"A job of {new.nodes} nodes cannot be placed by this version.",
            remedy="Ask for one node with more GPUs.",
        )
    if new.checkpoint_uri is not None and "://" not in new.checkpoint_uri:
        raise InvalidError(
            f"{new.checkpoint_uri!r} is no URI of a checkpoint folder.",
            remedy="Write it as file:///FOLDER or s3://BUCKET/PREFIX.",
        )
    for name in new.env:
        if not name or "=" in name or "\x00" in name or "\x00" in new.env[name]:
            raise InvalidError(f"{name!r} cannot be the name of an environment variable.")


def _row(
    new: NewJob,
    needs: Needs,
    task: dict[str, Any],
    id: str,
    of: str,
    owner: str,
    uri: str,
    now: datetime,
) -> JobRow:
    return JobRow(
        id=id,
        name=new.name,
        team_id=of,
        owner_id=owner,
        needs=needs,
        labels=dict(new.labels),
        task=task,
        nodes=new.nodes,
        checkpoint_uri=uri,
        deadline=new.deadline,
        max_runtime_s=new.max_runtime_s,
        state=JobState.QUEUED,
        reason="submitted",
        message=None,
        attempt=0,
        queued_at=now,
        no_spot_since=None,
        not_before=None,
        step=None,
        total_steps=None,
        result=None,
        created_at=now,
        started_at=None,
        ended_at=None,
    )
