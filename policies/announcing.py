"""Stops in two phases: a person is warned first, and the stop comes no sooner than announced."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from policies.arbitration import Proposal
from policies.language import Policy
from policies.moments import at, between, span
from policies.plan import ActionKind, Rank


def announced(
    policy: Policy,
    rule: str,
    rank: Rank,
    action: ActionKind,
    fact: str,
    *,
    since: datetime,
    due: datetime,
    warn: timedelta | None,
    warned_at: datetime | None,
    now: datetime,
    zone: tzinfo,
) -> Proposal:
    """The stop once it is due and was announced `warn` ago; before that a warning, or the wait.

    A warning from before this one's time belongs to another stop, one that never came.
    """
    warned: datetime | None = None
    acts_at = due
    if warn is not None:
        if warned_at is not None and warned_at >= due - warn:
            warned = warned_at
        acts_at = max(due, (warned or max(now, due - warn)) + warn)
    observed, threshold = between(since, now), span((due - since).total_seconds())

    def proposal(kind: ActionKind, text: str, *, ripe: bool, stands: bool) -> Proposal:
        reason = policy.reason(rank, rule, f"{fact}; {text}", observed, threshold)
        return Proposal(kind, reason, ripe, acts_at if stands else None)

    if now >= acts_at and (warn is None or warned is not None):
        return proposal(action, f"{rule} is {threshold}", ripe=True, stands=False)
    when = at(acts_at, now, zone)
    if warn is not None and warned is None and now >= due - warn:
        return proposal(ActionKind.WARN, f"{action} at {when}", ripe=True, stands=True)
    stands = warned is not None
    return proposal(action, f"would {action} at {when}", ripe=False, stands=stands)
