"""What is done about a workstation: its person's wish, and the rules that stand against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from policies.arbitration import Proposal, Verdict, arbitrate
from policies.launching import Gate, place
from policies.moments import at
from policies.plan import ActionKind, Decision, Rank, Reason, Rejected, TargetKind
from policies.proposing import budget_effects, by_hold, for_running, kept_running, to_stay_off
from policies.selection import at_provider, at_providers
from policies.view import View
from policies.world import Condition, Desire, Instance, InstanceState, Workstation

RUNNING = frozenset({InstanceState.READY, InstanceState.BOOTING})
ASLEEP = frozenset({InstanceState.STOPPED, InstanceState.HIBERNATED})


def decide_workstation(view: View, workstation: Workstation) -> Decision:
    """Exactly one decision, whatever state the workstation's machine is in."""
    machine = view.machine_of(workstation)
    live = machine if machine is not None and machine.state.live else None
    if workstation.desire is Desire.GONE:
        return _gone(workstation, live)
    if workstation.desire is Desire.OFF:
        return _off(workstation, live)
    if live is None:
        return _without_machine(view, workstation, machine)
    if live.state in ASLEEP:
        return _asleep(view, workstation, live)
    if live.state is InstanceState.READY:
        return _running(view, workstation, live)
    return _simple(workstation, ActionKind.NOTHING, in_transition(live))


def in_transition(instance: Instance) -> Reason:
    text = f"its machine is in transition ({instance.state})"
    if instance.state is InstanceState.LOST:
        text = "its machine is lost; it is waited for until it answers or has ended"
    return Reason(Rank.SAFETY, "instance.state", text, observed=instance.state)


def _gone(workstation: Workstation, live: Instance | None) -> Decision:
    if live is None:
        reason = _wish("desire.gone", "it was removed and has no machine any more")
        return _simple(workstation, ActionKind.DELETE_VOLUME, reason)
    if live.state is InstanceState.TERMINATING:
        return _simple(workstation, ActionKind.NOTHING, in_transition(live))
    reason = _wish("desire.gone", f"{workstation.name} was removed")
    return _simple(workstation, ActionKind.TERMINATE, reason, live)


def _off(workstation: Workstation, live: Instance | None) -> Decision:
    if live is None or live.state in ASLEEP:
        reason = _wish("desire.off", "its person wants it off, and it is")
        return _simple(workstation, ActionKind.NOTHING, reason)
    if live.state not in RUNNING:
        return _simple(workstation, ActionKind.NOTHING, in_transition(live))
    reason = _wish("desire.off", "its person wants it off")
    (proposal,) = _possible([Proposal(ActionKind.STOP, reason)], live)
    return _simple(workstation, proposal.action, proposal.reason, live)


def _running(view: View, workstation: Workstation, live: Instance) -> Decision:
    policies = at_provider(view.policies_for(workstation), live.offer.provider)
    wish = _wish("desire.on", "its person wants it on, and it is ready")
    proposals = [
        Proposal(ActionKind.NOTHING, wish),
        *for_running(view, workstation, live, policies),
        *by_hold(view, workstation, running=ActionKind.NOTHING, stopped=ActionKind.STOP),
    ]
    stop = budget_effects(view, workstation, live.offer.provider).stop
    if stop is not None and live.offer.price_per_hour > 0:
        proposals.append(Proposal(ActionKind.STOP, stop))
    if Condition.INTERRUPTING in live.conditions or live.notice_deadline is not None:
        proposals.append(Proposal(ActionKind.NOTIFY, _interrupting(view, workstation, live)))
    verdict = arbitrate(_possible(proposals, live))
    acts = verdict.action in {ActionKind.STOP, ActionKind.TERMINATE}
    return _as_decision(workstation, verdict, live if acts else None)


def _asleep(view: View, workstation: Workstation, live: Instance) -> Decision:
    provider = live.offer.provider
    policies = at_provider(view.policies_for(workstation), provider)
    wish = _wish("desire.on", "its person wants it on, and its machine is stopped")
    against = [
        view.seats.refusal(policies, workstation.user),
        budget_effects(view, workstation, provider).no_new if live.offer.price_per_hour else None,
    ]
    verdict = arbitrate(
        [
            Proposal(ActionKind.START, wish),
            *by_hold(view, workstation, running=ActionKind.START, stopped=ActionKind.NOTHING),
            *to_stay_off(view, workstation, live, policies),
            *(Proposal(ActionKind.NOTHING, reason) for reason in against if reason),
        ]
    )
    if verdict.action is not ActionKind.START:
        return _as_decision(workstation, verdict, None)
    view.seats.take(policies, workstation.user)
    return _as_decision(workstation, verdict, live)


def _without_machine(view: View, workstation: Workstation, ended: Instance | None) -> Decision:
    policies = view.policies_for(workstation)
    wish = _wish("desire.on", "its person wants it on, and it has no machine")
    launch = ActionKind.LAUNCH
    hold = by_hold(view, workstation, running=launch, stopped=ActionKind.NOTHING)
    wanted = arbitrate([Proposal(launch, wish), *hold])
    if wanted.action is not launch:
        return _as_decision(workstation, wanted, None)

    def gate_at(provider: str) -> Gate:
        speaking = at_provider(policies, provider)
        blocks: list[Proposal] = []
        if not kept_running(view, workstation):
            blocks = to_stay_off(view, workstation, ended, speaking)
        full = view.seats.refusal(speaking, workstation.user)
        if full is not None:
            blocks.append(Proposal(ActionKind.NOTHING, full))
        block = arbitrate(blocks).because[0] if blocks else None
        return Gate(block, budget_effects(view, workstation, provider))

    placed = place(
        view, workstation, gate_at, without_since=workstation.waiting_since, pressing=None
    )
    if not placed.offers:
        lost = (Rejected(launch.value, wanted.because), *placed.rejected)
        return Decision(
            TargetKind.WORKSTATION, workstation.id, ActionKind.NOTHING, placed.because, lost
        )
    providers = {offer.provider for offer in placed.offers}
    view.seats.take(at_providers(policies, providers), workstation.user)
    return Decision(
        TargetKind.WORKSTATION,
        workstation.id,
        launch,
        (*wanted.because, *placed.because),
        (*wanted.instead_of, *placed.rejected),
        offers=placed.offers,
    )


def _possible(proposals: Iterable[Proposal], live: Instance) -> list[Proposal]:
    """A machine that cannot be stopped is terminated; the home outlives both."""
    if live.offer.can_stop:
        return list(proposals)
    possible: list[Proposal] = []
    for proposal in proposals:
        if proposal.action is ActionKind.STOP:
            text = f"{proposal.reason.text}; its machine cannot be stopped, only terminated"
            reason = replace(proposal.reason, text=text)
            possible.append(replace(proposal, action=ActionKind.TERMINATE, reason=reason))
        else:
            possible.append(proposal)
    return possible


def _interrupting(view: View, workstation: Workstation, live: Instance) -> Reason:
    until = "soon"
    if live.notice_deadline is not None:
        until = f"at {at(live.notice_deadline, view.now, view.zone_of(workstation.team))}"
    text = f"{live.offer.provider} takes its machine away {until}; another follows"
    return Reason(Rank.SAFETY, "instance.interrupting", text, observed=until)


def _wish(rule: str, text: str) -> Reason:
    return Reason(Rank.DESIRE, rule, text)


def _simple(
    workstation: Workstation, action: ActionKind, reason: Reason, live: Instance | None = None
) -> Decision:
    return Decision(
        TargetKind.WORKSTATION,
        workstation.id,
        action,
        (reason,),
        instance_id=live.id if live else None,
    )


def _as_decision(workstation: Workstation, verdict: Verdict, live: Instance | None) -> Decision:
    return Decision(
        TargetKind.WORKSTATION,
        workstation.id,
        verdict.action,
        verdict.because,
        verdict.instead_of,
        instance_id=live.id if live else None,
        acts_at=verdict.acts_at,
    )
