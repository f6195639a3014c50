"""The rule `allow.ttl`: a workstation runs so long after its person last started it, no longer.

Counted from the person's start and not from the machine's, so that a machine which was replaced
or stopped overnight gains nothing, and what has ended stays off until its person starts it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from policies.announcing import announced
from policies.arbitration import Proposal
from policies.language import Policy
from policies.moments import at, between
from policies.plan import ActionKind, Rank, Reason
from policies.quantities import Duration
from policies.world import Instance, Workstation

RULE = "allow.ttl"
WARN_BEFORE = timedelta(minutes=30)
"""Its person may be at work, and this end does not depend on them."""


def propose(
    policy: Policy,
    ttl: Duration,
    workstation: Workstation,
    instance: Instance,
    now: datetime,
    zone: tzinfo,
) -> Proposal:
    """Stop, announce a stop, or say when, for a READY machine."""
    since = workstation.started_by_person_at or instance.ready_at or instance.created_at
    return announced(
        policy,
        RULE,
        Rank.TTL,
        ActionKind.STOP,
        f"started by its person at {at(since, now, zone)}",
        since=since,
        due=since + ttl.delta,
        warn=min(WARN_BEFORE, ttl.delta / 2),
        warned_at=workstation.warned_at,
        now=now,
        zone=zone,
    )


def stays_off(
    policy: Policy, ttl: Duration, workstation: Workstation, now: datetime, zone: tzinfo
) -> Reason | None:
    """Why it is not started again; None while its time lasts."""
    since = workstation.started_by_person_at
    if since is None or now - since < ttl.delta:
        return None
    return policy.reason(
        Rank.TTL,
        RULE,
        f"its {ttl} since {at(since, now, zone)} are over; it stays off until its person starts it",
        observed=between(since, now),
        threshold=str(ttl),
    )
