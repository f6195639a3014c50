"""Stage arbitrate: of all proposals about one target exactly one wins, by a total order.

The rank decides, then the graver action, then the rule and its line. There are no ties but
between equal proposals, hence the order in which rules run cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from policies.plan import ActionKind, Rank, Reason, Rejected

_RANKS = {rank: place for place, rank in enumerate(Rank)}
_GRAVITY = {
    action: place
    for place, action in enumerate(
        (
            ActionKind.DELETE_VOLUME,
            ActionKind.TERMINATE,
            ActionKind.DRAIN,
            ActionKind.STOP,
            ActionKind.NOTIFY,
            ActionKind.NOTHING,
            ActionKind.WARN,
            ActionKind.START,
            ActionKind.LAUNCH,
        )
    )
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one rule wants done, and why."""

    action: ActionKind
    reason: Reason
    ripe: bool = True
    """An unripe proposal only says when, or why not, its action would come; it never wins."""
    acts_at: datetime | None = None
    """For an announced stop: when it comes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The winning action with its reasons, and what was not done instead."""

    action: ActionKind
    because: tuple[Reason, ...]
    instead_of: tuple[Rejected, ...]
    acts_at: datetime | None = None


def precedence(proposal: Proposal) -> tuple[int, int, str, str, str, str]:
    """The sort key of the total order, most important first."""
    reason = proposal.reason
    return (
        _RANKS[reason.rank],
        _GRAVITY[proposal.action],
        reason.rule,
        reason.where or "",
        reason.policy or "",
        reason.text,
    )


def arbitrate(proposals: Iterable[Proposal]) -> Verdict:
    """Pick one action; at least one proposal must be ripe."""
    ordered = sorted(proposals, key=precedence)
    winner = next(proposal for proposal in ordered if proposal.ripe)
    because: list[Reason] = []
    losers: dict[ActionKind, list[Reason]] = {}
    for proposal in ordered:
        if proposal.ripe and proposal.action is winner.action:
            because.append(proposal.reason)
        else:
            losers.setdefault(proposal.action, []).append(proposal.reason)
    rejected = tuple(Rejected(action.value, tuple(losers[action])) for action in losers)
    return Verdict(winner.action, tuple(because), rejected, _announced(winner, ordered))


def _announced(winner: Proposal, proposals: list[Proposal]) -> datetime | None:
    """The announced stop stands when the winner announces it, or leaves things as they are."""
    if winner.action not in {ActionKind.WARN, ActionKind.NOTHING}:
        return None
    outranked = winner.reason.rank is Rank.HOLD
    return min((p.acts_at for p in proposals if p.acts_at and not outranked), default=None)
