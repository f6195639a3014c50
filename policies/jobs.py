"""What is done about a training job: placed while it is queued, else left to its machines.

A job is never stopped for hours or idleness, which speak of workstations; a policy whose
`applies_to.kind` names jobs only keeps them from being launched outside of hours.
"""

from __future__ import annotations

from policies import hours
from policies.arbitration import Proposal, arbitrate
from policies.budget import Effects, effects_on
from policies.language import Policy
from policies.launching import Gate, place
from policies.plan import ActionKind, Decision, Rank, Reason, Rejected, TargetKind
from policies.selection import Target, at_provider, at_providers
from policies.spot import Strategy, deadline_note, pressing_deadline
from policies.view import View
from policies.world import Instance, Job, JobState, PurchaseMode

WAITING = frozenset({JobState.QUEUED, JobState.INTERRUPTED})


def decide_job(view: View, job: Job) -> Decision:
    """Exactly one decision, whatever state the job is in."""
    if job.state in WAITING:
        return _waiting(view, job)
    if job.state.ended:
        return _nothing(job, (_fact(f"it has ended: {job.state}", job),))
    return _nothing(job, _placed(view, job))


def stop_of(view: View, job: Job, instance: Instance) -> Reason | None:
    """Why the budget takes a machine from a job; None when it does not."""
    if instance.offer.price_per_hour == 0:
        return None
    return _effects(view, job, instance.offer.provider).stop


def _waiting(view: View, job: Job) -> Decision:
    policies = view.policies_for(job)
    zone = view.zone_of(job.team)
    wish = _fact("it waits for a machine", job)

    def gate_at(provider: str) -> Gate:
        speaking = at_provider(policies, provider)
        reasons = [_closed(view, job, policy) for policy in speaking]
        reasons.append(view.seats.refusal(speaking, job.user, job.nodes))
        blocks = [Proposal(ActionKind.NOTHING, reason) for reason in reasons if reason]
        block = arbitrate(blocks).because[0] if blocks else None
        return Gate(block, _effects(view, job, provider))

    placed = place(
        view,
        job,
        gate_at,
        without_since=job.no_spot_since,
        pressing=pressing_deadline(job, view.now, zone),
    )
    if not placed.offers:
        lost = (Rejected(ActionKind.LAUNCH.value, (wish,)), *placed.rejected)
        return Decision(TargetKind.JOB, job.id, ActionKind.NOTHING, placed.because, lost)
    providers = {offer.provider for offer in placed.offers}
    view.seats.take(at_providers(policies, providers), job.user, job.nodes)
    note = deadline_note(job, view.now, zone)
    return Decision(
        TargetKind.JOB,
        job.id,
        ActionKind.LAUNCH,
        (wish, *placed.because, *((note,) if note else ())),
        placed.rejected,
        offers=placed.offers,
    )


def _placed(view: View, job: Job) -> tuple[Reason, ...]:
    """Why a job that has machines is left as it is, and why those machines."""
    reasons = [_fact(f"it is {job.state}", job)]
    strategy = Strategy.of(view.policies_for(job))
    machines = [view.instances[i] for i in job.instance_ids if i in view.instances]
    for machine in machines:
        stop = stop_of(view, job, machine)
        if stop is not None:
            return (stop, *reasons)
    for machine in machines[:1]:
        offer = machine.offer
        price = f"{offer.price_per_hour} {offer.currency} an hour"
        text = f"it runs on {offer.mode} at {price}"
        prefer = strategy.capacity.prefer if strategy.capacity else None
        if strategy.policy is not None and prefer is offer.mode:
            text += f", because capacity.prefer is {prefer}"
            reasons.append(strategy.policy.reason(Rank.DESIRE, "capacity.prefer", text))
        else:
            reasons.append(Reason(Rank.DESIRE, "job.machine", text))
        note = deadline_note(job, view.now, view.zone_of(job.team))
        if note is not None and offer.mode is PurchaseMode.SPOT:
            reasons.append(note)
    return tuple(reasons)


def _closed(view: View, job: Job, policy: Policy) -> Reason | None:
    """Why a policy's hours keep a job waiting; only where it speaks of jobs by name."""
    if "job" not in (policy.applies_to.kind or ()):
        return None
    found = view.opening(policy, job.team)
    return hours.closed(policy, found[0], view.now, found[1]) if found else None


def _effects(view: View, job: Job, provider: str) -> Effects:
    policies, budget = view.policies_for(job), view.budget_of(job.team)
    return effects_on(policies, Target.of(job), budget, provider)


def _fact(text: str, job: Job) -> Reason:
    return Reason(Rank.DESIRE, "job.state", text, observed=job.state)


def _nothing(job: Job, because: tuple[Reason, ...]) -> Decision:
    return Decision(TargetKind.JOB, job.id, ActionKind.NOTHING, because)
