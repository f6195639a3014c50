"""Decisions, plans and problems in sentences, for the command line, the dashboard and mails.

Only words are made here: everything said comes from the reasons that the decision carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo

from policies.moments import at
from policies.plan import ActionKind, Decision, Plan, Rank, Reason, Rejected, TargetKind
from policies.problems import Problem, Severity

_DONE = {
    ActionKind.LAUNCH: "launched a machine for",
    ActionKind.START: "started",
    ActionKind.STOP: "stopped",
    ActionKind.DRAIN: "drained",
    ActionKind.TERMINATE: "terminated",
    ActionKind.DELETE_VOLUME: "deleted the home of",
    ActionKind.WARN: "warned",
    ActionKind.NOTIFY: "notified",
    ActionKind.NOTHING: "left",
}
_TO_DO = {
    ActionKind.LAUNCH: "launch a machine for",
    ActionKind.START: "start",
    ActionKind.STOP: "stop",
    ActionKind.DRAIN: "drain",
    ActionKind.TERMINATE: "terminate",
    ActionKind.DELETE_VOLUME: "delete the home of",
    ActionKind.WARN: "warn",
    ActionKind.NOTIFY: "notify",
    ActionKind.NOTHING: "leave",
}
_ENDS = frozenset({ActionKind.STOP, ActionKind.TERMINATE})
_ACTIONS = frozenset(kind.value for kind in ActionKind)
OFFERS_SHOWN = 3


def explain(
    decision: Decision,
    moment: datetime | None = None,
    zone: tzinfo = UTC,
    names: Mapping[str, str] | None = None,
) -> str:
    """One decision as a sentence: what, when, because of what, and what else there was.

    With `moment` it is told as done at that time, without as what would be done.
    `names` gives names to ids.
    """
    verb = (_DONE if moment else _TO_DO)[decision.action]
    name = (names or {}).get(decision.target_id, decision.target_id)
    what = f"{verb} {name}"
    if decision.action is ActionKind.NOTHING:
        what += " as it is"
    if moment:
        what += f" at {at(moment, moment, zone)}"
    parts = [f"{what} because {'; and '.join(map(sentence, decision.because))}"]
    if decision.offers:
        parts.append(f"to buy: {_offers(decision)}")
    actions, offers = _alternatives(decision.instead_of)
    for rejected in actions:
        parts.append(f"{rejected.what}: {', '.join(map(sentence, rejected.reasons))}")
    if offers:
        parts.append(
            f"{len(offers)} offers left out, first {offers[0].what}: "
            f"{', '.join(map(sentence, offers[0].reasons))}"
        )
    ended = decision.target_kind is TargetKind.WORKSTATION and decision.action in _ENDS
    if ended and not _has_hold(decision):
        parts.append("hold: none")
    return "; ".join(parts)


def sentence(reason: Reason) -> str:
    """A reason with its place: `hours.open ended 19:00 (research-gpu.yaml:21)`."""
    return f"{reason.text} ({reason.where})" if reason.where else reason.text


def render_plan(plan: Plan, *, everything: bool = False) -> str:
    """What a plan would do, a line each; `everything` adds what is left as it is."""
    shown = [d for d in plan.decisions if everything or d.action is not ActionKind.NOTHING]
    lines = [f"{d.target_kind} {explain(d)}" for d in shown]
    left = len(plan.decisions) - len(shown)
    if left:
        lines.append(f"{left} left as they are")
    return "\n".join(lines) or "nothing to decide"


def render_problems(problems: Iterable[Problem]) -> str:
    """What `policy check` prints: each problem at its line, then the count."""
    found = list(problems)
    errors = sum(problem.severity is Severity.ERROR for problem in found)
    lines = [str(problem) for problem in found]
    lines.append(f"{errors} errors, {len(found) - errors} warnings" if found else "no problems")
    return "\n".join(lines)


def _offers(decision: Decision) -> str:
    shown = [
        f"{offer.id} at {offer.price_per_hour} {offer.currency} an hour"
        for offer in decision.offers[:OFFERS_SHOWN]
    ]
    more = len(decision.offers) - len(shown)
    return ", then ".join(shown) + (f", then {more} more" if more else "")


def _alternatives(rejected: Iterable[Rejected]) -> tuple[list[Rejected], list[Rejected]]:
    """Other actions, and offers that were left out."""
    actions: list[Rejected] = []
    offers: list[Rejected] = []
    for item in rejected:
        (actions if item.what in _ACTIONS else offers).append(item)
    return actions, offers


def _has_hold(decision: Decision) -> bool:
    reasons = [*decision.because, *(r for item in decision.instead_of for r in item.reasons)]
    return any(reason.rank is Rank.HOLD for reason in reasons)
