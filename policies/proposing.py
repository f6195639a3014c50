"""Stage propose, for workstations: what each rule wants of a machine that runs or rests."""

from __future__ import annotations

from policies import hours, idle, lifetime
from policies.arbitration import Proposal
from policies.budget import Effects, effects_on
from policies.language import Policy
from policies.moments import at
from policies.plan import ActionKind, Rank, Reason
from policies.selection import Target
from policies.view import View
from policies.world import Hold, Instance, Workstation


def for_running(
    view: View, workstation: Workstation, live: Instance, policies: tuple[Policy, ...]
) -> list[Proposal]:
    """What hours, idle and ttl of each policy propose for a ready machine."""
    now, zone = view.now, view.zone_of(workstation.team)
    opened = view.opened_at(policies, workstation.team)
    proposals: list[Proposal] = []
    for policy in policies:
        if policy.hours is not None:
            proposals += _hours(view, workstation, policy)
        if policy.idle is not None:
            proposals.append(
                idle.propose(policy, policy.idle, workstation, live, opened, now, zone)
            )
        if policy.allow is not None and policy.allow.ttl is not None:
            ttl = policy.allow.ttl
            proposals.append(lifetime.propose(policy, ttl, workstation, live, now, zone))
    return proposals


def to_stay_off(
    view: View,
    workstation: Workstation,
    machine: Instance | None,
    policies: tuple[Policy, ...],
) -> list[Proposal]:
    """Why hours, idle and ttl keep a workstation off that its person wants on.

    The mirror image of `for_running`: what would be stopped at once must not be started.
    """
    now, zone = view.now, view.zone_of(workstation.team)
    opened = view.opened_at(policies, workstation.team)
    reasons: list[Reason | None] = []
    for policy in policies:
        opening = view.opening(policy, workstation.team)
        if opening is not None:
            started = workstation.started_by_person_at
            reasons.append(hours.closed(policy, opening[0], now, opening[1], started))
        if policy.idle is not None:
            reasons.append(
                idle.stays_off(policy, policy.idle, workstation, machine, opened, now, zone)
            )
        if policy.allow is not None and policy.allow.ttl is not None:
            reasons.append(lifetime.stays_off(policy, policy.allow.ttl, workstation, now, zone))
    return [Proposal(ActionKind.NOTHING, reason) for reason in reasons if reason is not None]


def by_hold(
    view: View, workstation: Workstation, *, running: ActionKind, stopped: ActionKind
) -> list[Proposal]:
    """A person's word: `running` to keep it running, `stopped` to keep it stopped."""
    hold = hold_of(view, workstation)
    if hold is None:
        return []
    until = at(hold.until, view.now, view.zone_of(workstation.team)) if hold.until else None
    text = f"{hold.by} holds it at {hold.kind}" + (f" until {until}" if until else "")
    reason = Reason(Rank.HOLD, "hold", text, observed=hold.kind, threshold=until)
    return [Proposal(running if hold.kind == "keep-running" else stopped, reason)]


def hold_of(view: View, workstation: Workstation) -> Hold | None:
    """A hold that has not run out."""
    hold = workstation.hold
    if hold is None or (hold.until is not None and hold.until <= view.now):
        return None
    return hold


def kept_running(view: View, workstation: Workstation) -> bool:
    hold = hold_of(view, workstation)
    return hold is not None and hold.kind == "keep-running"


def budget_effects(view: View, workstation: Workstation, provider: str) -> Effects:
    """The budget's steps; those on a forecast yield to a hold that keeps it running."""
    return effects_on(
        view.policies_for(workstation),
        Target.of(workstation),
        view.budget_of(workstation.team),
        provider,
        soft=not kept_running(view, workstation),
    )


def _hours(view: View, workstation: Workstation, policy: Policy) -> list[Proposal]:
    found = view.opening(policy, workstation.team)
    if found is None or policy.hours is None:
        return []
    opening, zone = found
    action = ActionKind.TERMINATE if policy.hours.outside == "terminate" else ActionKind.STOP
    started = workstation.started_by_person_at
    closed = hours.closed(policy, opening, view.now, zone, started)
    reason = closed or hours.ahead(policy, opening, view.now, zone, started)
    return [Proposal(action, reason, ripe=closed is not None)]
