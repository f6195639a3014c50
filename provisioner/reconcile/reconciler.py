"""The reconciler: one tick makes the world a little more like what is wanted.

    observe -> mirror -> settle -> snapshot -> decide -> record intents -> perform

It may be stopped at any point and go on from the rows. Only the lease holder ticks; each write
carries the lease's epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from policies.codec import plan_from_dict, plan_to_dict, snapshot_to_dict
from policies.decide import decide
from policies.language import Policy
from policies.plan import ActionKind, Decision, Plan
from policies.world import BudgetView, Snapshot
from provisioner import crashpoints
from provisioner.calls import Calls
from provisioner.clock import Clock
from provisioner.crashpoints import Point
from provisioner.errors import StaleEpochError
from provisioner.ids import new_id
from provisioner.jobs.settle import enforce_time_limits, settle
from provisioner.offers.market import Market
from provisioner.policybook import active_texts, load_active
from provisioner.providers.registry import Providers
from provisioner.reconcile import intents, snapshot
from provisioner.reconcile.deadlines import enforce_deadlines
from provisioner.reconcile.mirror import mirror
from provisioner.reconcile.observe import PRICES_EVERY, Observation
from provisioner.reconcile.perform import Performer, Request
from provisioner.reconcile.planning import Tick
from provisioner.reconcile.watch import ProviderHealth, Watch
from provisioner.store import actions, commands, journal, lease, workstations
from provisioner.store.engine import Connection, Store
from provisioner.store.lease import Lease

_log = logging.getLogger(__name__)

DEAF_AFTER = timedelta(minutes=2)
"""Without a tick for this long the control plane was away, and no agent could call in."""
FIRST_OFFERS_S = 5.0
"""How long a control plane that starts waits for the offers."""
AGENTS_CALL_IN = timedelta(seconds=30)
"""After that, how long agents have to tell what happened meanwhile."""


class Reconciler:
    """Ticks under a lease. Everything that acts is given; nothing is found."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        calls: Calls,
        providers: Providers,
        market: Market,
        installation_id: str,
        holder: str,
        request: Request,
        budgets: Callable[[Connection, datetime], Iterable[BudgetView]],
        lease_s: float,
        poke: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._providers = providers
        self._market = market
        self._installation_id = installation_id
        self._budgets = budgets
        self._lease_s = lease_s
        self._holder = holder
        self._lease: Lease | None = None
        self._performer = Performer(providers, calls, clock, request, poke)
        self._watch = Watch(store, clock, calls, providers, market)
        self._listening_since = self._observed_at = clock.now()
        self._ticked_since: datetime | None = None
        """When the last tick began; its host may have slept in the midst of it."""
        self._last: dict[str, tuple[object, ...]] = {}
        """The essence of each target's last stored decision."""
        self.last_tick_at: datetime | None = None
        self.last_tick_s: float | None = None

    @property
    def health(self) -> Mapping[str, ProviderHealth]:
        """How each provider answered last."""
        return self._watch.health

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
                self._observe()  # whoever asks this one is told what is sold and limited now
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
        """Ask every provider for its offers, without touching a row; wait for those that come."""
        self._watch.refresh_offers(FIRST_OFFERS_S)

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
            policies = load_active(connection)
            taken = self._snapshot(connection, policies)
            plan = decide(taken, policies)
        crashpoints.reach(Point.DECIDED)
        with self._fenced(held)() as connection:
            self._record(connection, taken, plan, held)
            due = actions.due(connection, self._clock.now())
        crashpoints.reach(Point.RECORDED)
        self._performer.perform(due, self._fenced(held))

    def snapshot(self, connection: Connection) -> Snapshot:
        """The world as of now."""
        return self._snapshot(connection, load_active(connection))

    def _snapshot(self, connection: Connection, policies: Sequence[Policy]) -> Snapshot:
        now = self._clock.now()
        return snapshot.take(connection, self._market, policies, self._budgets, now)

    def _observe(self) -> list[Observation]:
        self._observed_at = self._clock.now()
        return self._watch.observe()

    def _mirror(self, connection: Connection, observations: list[Observation], held: Lease) -> None:
        now = self._clock.now()
        for seen in observations:
            provider = self._providers[seen.provider]
            mirror(connection, seen, provider.capabilities, held.epoch, now)
            self._watch.note_priced(seen)
        if self._ticked_since is None or now - self._ticked_since > DEAF_AFTER:
            self._listening_since = now
        enforce_deadlines(connection, held.epoch, self._listening_since, now)
        commands.fail_unanswerable(connection, now)
        workstations.note_waiting(connection, now)
        settle(connection, now)
        if now - self._listening_since >= AGENTS_CALL_IN:
            enforce_time_limits(connection, now)
        snapshot.note_spot_drought(connection, self._market, now)

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
        tick = Tick(
            self._clock.now(),
            held.epoch,
            self._installation_id,
            self._market.catalogue,
            frozenset(n for n, p in self._providers.items() if p.capabilities.alternatives),
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
