"""One snapshot and its policies, indexed once, so that deciding takes time linear in its size.

It answers questions and remembers answers; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

from policies.calendar import Opening
from policies.hours import calendar_of
from policies.language import Policy
from policies.market import Barriers
from policies.moments import zone_named
from policies.placement import RejectLog, judge
from policies.plan import Reason
from policies.seats import Seats
from policies.selection import Target, at_provider, in_order, select
from policies.world import (
    BudgetView,
    Instance,
    InstanceState,
    Job,
    Needs,
    Offer,
    OwnerKind,
    Snapshot,
    Workstation,
)

Judged = tuple[tuple[Offer, ...], RejectLog]

RESTING = frozenset({InstanceState.STOPPED, InstanceState.HIBERNATED, InstanceState.TERMINATING})
"""Live states that take no seat of `instances_per_user`."""


class View:
    """The snapshot as the rules ask for it."""

    def __init__(self, snapshot: Snapshot, policies: Sequence[Policy]) -> None:
        self.now = snapshot.now
        self.policies = in_order(policies)
        self.instances = {instance.id: instance for instance in snapshot.instances}
        self.workstations = {w.id: w for w in snapshot.workstations}
        self.jobs = {job.id: job for job in snapshot.jobs}
        self.offers = snapshot.offers
        self._unseen = (snapshot.offers_total or len(self.offers)) - len(self.offers)
        self._budgets = {budget.team: budget for budget in snapshot.budgets}
        self._zones = dict(snapshot.team_timezones)
        self._barred = Barriers(
            snapshot.cooldowns, snapshot.closures, snapshot.quotas, snapshot.now
        )
        self._selected: dict[Target, tuple[Policy, ...]] = {}
        self._openings: dict[tuple[str, str, str | None], tuple[Opening, tzinfo] | None] = {}
        self._judged: dict[tuple[tuple[tuple[str, str], ...], Needs], Judged] = {}
        self.seats = Seats()
        self._seat_what_runs()

    def policies_for(self, owner: Workstation | Job) -> tuple[Policy, ...]:
        target = Target.of(owner)
        found = self._selected.get(target)
        if found is None:
            found = self._selected[target] = select(self.policies, target)
        return found

    def budget_of(self, team: str) -> BudgetView | None:
        return self._budgets.get(team)

    def zone_of(self, team: str) -> tzinfo:
        return zone_named(self._zones.get(team))

    def opening(self, policy: Policy, team: str) -> tuple[Opening, tzinfo] | None:
        """The state of a policy's hours for a team, and their zone; None without hours."""
        key = (policy.name, policy.file, self._zones.get(team))
        if key not in self._openings:
            calendar = calendar_of(policy, self._zones.get(team))
            self._openings[key] = (
                (calendar.opening_at(self.now), calendar.zone) if calendar is not None else None
            )
        return self._openings[key]

    def opened_at(self, policies: Sequence[Policy], team: str) -> datetime | None:
        """When the hours of these policies last opened, of those that are open."""
        found = (self.opening(policy, team) for policy in policies)
        starts = (o[0].since for o in found if o is not None and o[0].is_open)
        return max((since for since in starts if since is not None), default=None)

    def owner_of(self, instance: Instance) -> Workstation | Job | None:
        if instance.owner_id is None:
            return None
        if instance.owner_kind is OwnerKind.WORKSTATION:
            return self.workstations.get(instance.owner_id)
        return self.jobs.get(instance.owner_id) if instance.owner_kind is OwnerKind.JOB else None

    def machine_of(self, workstation: Workstation) -> Instance | None:
        """The machine a workstation names, ended or not."""
        return self.instances.get(workstation.instance_id or "")

    def judged(self, needs: Needs, policies: tuple[Policy, ...]) -> Judged:
        """What fits and is allowed, cheapest first, and the rest; equal requests share it."""
        key = (tuple((policy.name, policy.file) for policy in policies), needs)
        if key not in self._judged:
            self._judged[key] = judge(needs, policies, self.offers, self._unseen)
        fitting, log = self._judged[key]
        return fitting, log.copy()

    def barred(self, offer: Offer) -> Reason | None:
        """Why an offer cannot be had now, by the market's word or the cloud's; None if it can."""
        return self._barred.reason(offer)

    def _seat_what_runs(self) -> None:
        for instance in self.instances.values():
            owner = self.owner_of(instance)
            if owner is None or not instance.state.live or instance.state in RESTING:
                continue
            if isinstance(owner, Workstation) and owner.instance_id != instance.id:
                continue
            if isinstance(owner, Job) and instance.id not in owner.instance_ids:
                continue
            speaking = at_provider(self.policies_for(owner), instance.offer.provider)
            self.seats.take(speaking, owner.user)
