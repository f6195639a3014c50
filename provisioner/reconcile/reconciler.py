"""The reconciler: one tick makes the world a little more like what is wanted.

    observe -> mirror -> settle -> snapshot -> decide -> record intents -> perform

It may be stopped at any point and go on from the rows. Only the lease holder ticks; each write
carries the lease's epoch.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from policies.codec import plan_from_dict, plan_to_dict, snapshot_to_dict
from policies.decide import decide
from policies.plan import ActionKind, Decision, Plan
from policies.world import BudgetView, Snapshot
from provisioner import crashpoints
from provisioner.calls import Calls
from provisioner.clock import Clock
from provisioner.crashpoints import Point
from provisioner.errors import StaleEpochError
from provisioner.ids import new_id
from provisioner.jobs.settle import enforce_time_limits, settle
from provisioner.offers.catalogue import Catalogue
from provisioner.policybook import active_texts, load_active
from provisioner.providers.registry import Providers
from provisioner.reconcile import intents, snapshot
from provisioner.reconcile.deadlines import enforce_deadlines
from provisioner.reconcile.mirror import mirror
from provisioner.reconcile.observe import (
    LISTING_TIMEOUT_S,
    PRICES_EVERY,
    Observation,
    PriceQuestion,
    observe,
)
from provisioner.reconcile.perform import Performer, Request
from provisioner.store import actions, commands, instances, journal, lease, workstations
from provisioner.store.engine import Connection, Store
from provisioner.store.lease import Lease

_log = logging.getLogger(__name__)

DEAF_AFTER = timedelta(minutes=2)
"""Without a tick for this long the control plane was away, and no agent could call in."""
AGENTS_CALL_IN = timedelta(seconds=30)
"""After that, how long agents have to tell what happened meanwhile."""


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """How a provider answered last."""

    name: str
    listed_at: datetime | None = None
    error: str | None = None


class Reconciler:
    """Ticks under a lease. Everything that acts is given; nothing is found."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        calls: Calls,
        providers: Providers,
        catalogue: Catalogue,
        installation_id: str,
        holder: str,
        request: Request,
        budgets: Callable[[Connection, datetime], Iterable[BudgetView]],
        lease_s: float,
        poke: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._calls = calls
        self._providers = providers
        self._catalogue = catalogue
        self._installation_id = installation_id
        self._budgets = budgets
        self._lease_s = lease_s
        self._holder = holder
        self._lease: Lease | None = None
        self._performer = Performer(providers, calls, clock, request, poke)
        self._priced_at: dict[str, datetime] = {}
        self._listening_since = self._observed_at = clock.now()
        self._ticked_since: datetime | None = None
        """When the last tick began; its host may have slept in the midst of it."""
        self._last: dict[str, tuple[object, ...]] = {}
        """The essence of each target's last stored decision."""
        self.health: dict[str, ProviderHealth] = {n: ProviderHealth(n) for n in providers}
        self.last_tick_at: datetime | None = None
        self.last_tick_s: float | None = None

    @property
    def held(self) -> Lease | None:
        """The lease, while this is the one that reconciles."""
        return self._lease

    def tick(self) -> bool:
        """One round; False when somebody else holds the lease."""
        started = self._clock.now()
        self._lease = lease.acquire(self._store, self._holder, self._lease_s, self._lease)
        if self._lease is None:
            if started - self._observed_at >= PRICES_EVERY:
                self._observe()  # whoever asks this one is told what is sold now
            return False
        try:
            self._tick(self._lease)
        except StaleEpochError as error:
            _log.warning("%s", error)
            self._lease = None
            return False
        self._ticked_since = started
        self.last_tick_at = self._clock.now()
        self.last_tick_s = (self.last_tick_at - started).total_seconds()
        return True

    def refresh_offers(self) -> None:
        """Ask every provider for its offers, without touching a row."""
        self._observe()

    def release(self) -> None:
        """Let another one take over at once."""
        if self._lease is not None:
            lease.release(self._store, self._lease)
            self._lease = None

    def _tick(self, held: Lease) -> None:
        observations = self._observe()
        crashpoints.reach(Point.OBSERVED)
        with self._fenced(held)() as connection:
            self._mirror(connection, observations, held)
        crashpoints.reach(Point.MIRRORED)
        with self._store.read() as connection:
            taken = self.snapshot(connection)
            plan = decide(taken, load_active(connection))
        crashpoints.reach(Point.DECIDED)
        with self._fenced(held)() as connection:
            self._record(connection, taken, plan, held)
            due = actions.due(connection, self._clock.now())
        crashpoints.reach(Point.RECORDED)
        self._performer.perform(due, self._fenced(held))

    def snapshot(self, connection: Connection) -> Snapshot:
        """The world as of now."""
        return snapshot.take(connection, self._catalogue.all(), self._budgets, self._clock.now())

    def _observe(self) -> list[Observation]:
        """All providers at once: one that hangs costs the others its time limit, once."""
        now = self._observed_at = self._clock.now()
        questions = {
            name: functools.partial(observe, provider, self._price_questions(name, now), now)
            for name, provider in self._providers.items()
        }
        answers = self._calls.gather(questions, LISTING_TIMEOUT_S)
        seen = [
            answers.get(name) or Observation(name, now, error="it does not answer")
            for name in questions
        ]
        for observation in seen:
            self._note(observation)
        return seen

    def _note(self, seen: Observation) -> None:
        before = self.health[seen.provider]
        if seen.listing is None:
            self.health[seen.provider] = replace(before, error=seen.error)
            _log.warning("provider %s: %s", seen.provider, seen.error)
            return
        self.health[seen.provider] = ProviderHealth(seen.provider, seen.at)
        self._catalogue.update(seen.provider, seen.offers)

    def _price_questions(self, provider: str, now: datetime) -> list[PriceQuestion]:
        """The offers whose prices are due: of machines that run, or have just begun or ended."""
        with self._store.read() as connection:
            rows = instances.live_or_just_ended(connection, provider, now - 2 * PRICES_EVERY)
        starts: dict[str, PriceQuestion] = {}
        for row in rows:
            asked = self._priced_at.get(row.offer.id)
            if (
                asked is None
                or row.state_since >= asked
                or (row.state.live and now - asked >= PRICES_EVERY)
            ):
                start = min(row.created_at, asked or row.created_at) - timedelta(hours=1)
                known = starts.get(row.offer.id)
                if known is None or start < known.start:
                    starts[row.offer.id] = PriceQuestion(row.offer, start)
        return list(starts.values())

    def _mirror(self, connection: Connection, observations: list[Observation], held: Lease) -> None:
        now = self._clock.now()
        for seen in observations:
            provider = self._providers[seen.provider]
            mirror(connection, seen, provider.capabilities, held.epoch, now)
            self._priced_at |= dict.fromkeys(seen.prices, seen.at)
        if self._ticked_since is None or now - self._ticked_since > DEAF_AFTER:
            self._listening_since = now
        enforce_deadlines(connection, held.epoch, self._listening_since, now)
        commands.fail_unanswerable(connection, now)
        workstations.note_waiting(connection, now)
        settle(connection, now)
        if now - self._listening_since >= AGENTS_CALL_IN:
            enforce_time_limits(connection, now)
        snapshot.note_spot_drought(connection, self._catalogue.all(), now)

    def _record(self, connection: Connection, taken: Snapshot, plan: Plan, held: Lease) -> None:
        """Intents for all that is to be done; decisions that are news are kept with their world."""
        news = [d for d in plan.decisions if self._is_news(connection, d)]
        ids = {d.target_id: new_id("dec") for d in news}
        if news:
            journal.store_snapshot(
                connection,
                taken.id,
                taken.now,
                snapshot_to_dict(taken),
                active_texts(connection),
            )
        for decision in news:
            journal.store_decision(
                connection,
                id=ids[decision.target_id],
                snapshot_id=taken.id,
                at=taken.now,
                target_kind=decision.target_kind,
                target_id=decision.target_id,
                action=decision.action,
                body=plan_to_dict(Plan(taken.id, (decision,))),
            )
        tick = intents.Tick(
            self._clock.now(),
            held.epoch,
            self._installation_id,
            taken.offers,
            {desk.id: desk for desk in taken.workstations},
        )
        for decision in plan.decisions:
            if decision.action is ActionKind.NOTIFY and decision.target_id not in ids:
                continue  # said already
            intents.record(connection, decision, ids.get(decision.target_id, ""), tick)
        self._last = {d.target_id: _essence(d) for d in plan.decisions}

    def _is_news(self, connection: Connection, decision: Decision) -> bool:
        """Whether it differs from the target's decision before in more than its figures."""
        last = self._last.get(decision.target_id)
        if last is None:
            stored = journal.decisions_of(connection, decision.target_id, 1)
            if not stored:
                return True
            (before,) = plan_from_dict(stored[0]["body"]).decisions
            last = _essence(before)
        return last != _essence(decision)

    def _fenced(self, held: Lease) -> Callable[[], AbstractContextManager[Connection]]:
        return lambda: lease.fenced(self._store, held)


def _essence(decision: Decision) -> tuple[object, ...]:
    return (
        decision.action,
        decision.instance_id,
        tuple((r.rank, r.rule, r.where) for r in decision.because),
        decision.offers[:1],
    )
