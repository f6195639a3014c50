"""The rule `idle`: a workstation that nobody uses is announced a stop, and then stopped.

Idle since the latest of: its person's last input, their last start, the machine's becoming ready,
and the last opening of its hours. Load that is above its limit makes it busy. Load that nobody
knows makes it neither busy for ever nor idle at once: it only takes twice as long.

What has been stopped stays off until its person comes back or its hours open again; otherwise the
wish "on" would start it at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from policies.announcing import announced
from policies.arbitration import Proposal
from policies.language import Idle, Policy
from policies.moments import at, between
from policies.plan import ActionKind, Rank, Reason
from policies.quantities import Percent
from policies.world import Instance, Workstation

RULE = "idle.for"
UNKNOWN_FACTOR = 2
STALE_AFTER = timedelta(minutes=5)
"""Load reported longer ago than this is unknown."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the conditions say about a machine's load."""

    busy: str | None
    unknown: str | None


def propose(
    policy: Policy,
    idle: Idle,
    workstation: Workstation,
    instance: Instance,
    opened: datetime | None,
    now: datetime,
    zone: tzinfo,
) -> Proposal:
    """Stop, announce a stop, or say why not, for a READY machine."""
    action = ActionKind.TERMINATE if idle.then == "terminate" else ActionKind.STOP
    since = used_at(workstation, instance.ready_at, opened) or instance.created_at
    load = load_of(idle, instance, now)
    if load.busy:
        reason = policy.reason(Rank.IDLE, "idle.when", f"not idle: {load.busy}", load.busy)
        return Proposal(action, reason, ripe=False)
    wait = idle.for_.delta * (UNKNOWN_FACTOR if load.unknown else 1)
    doubt = f"; {load.unknown}, so twice the time is waited" if load.unknown else ""
    return announced(
        policy,
        RULE,
        Rank.IDLE,
        action,
        f"idle since {at(since, now, zone)}{doubt}",
        since=since,
        due=since + wait,
        warn=idle.warn.delta if idle.warn else None,
        warned_at=workstation.warned_at,
        now=now,
        zone=zone,
    )


def stays_off(
    policy: Policy,
    idle: Idle,
    workstation: Workstation,
    instance: Instance | None,
    opened: datetime | None,
    now: datetime,
    zone: tzinfo,
) -> Reason | None:
    """Why a workstation without a running machine is not started again; None when it may be.

    One that waits for a machine was off since `waiting_since`: time spent waiting is not idle.
    """
    since = used_at(workstation, instance.ready_at if instance else None, opened)
    off_since = now if instance and instance.state.live else workstation.waiting_since
    if since is None or off_since is None or off_since - since < idle.for_.delta:
        return None
    return policy.reason(
        Rank.IDLE,
        RULE,
        f"unused since {at(since, now, zone)}; it stays off until its person starts it",
        observed=between(since, off_since),
        threshold=str(idle.for_),
    )


def used_at(
    workstation: Workstation, ready_at: datetime | None, opened: datetime | None
) -> datetime | None:
    """When it was last used, or last had reason to run."""
    moments = (
        workstation.last_activity_at,
        workstation.started_by_person_at,
        ready_at,
        opened,
    )
    return max((moment for moment in moments if moment is not None), default=None)


def load_of(idle: Idle, instance: Instance, now: datetime) -> Load:
    seen = instance.agent_seen_at
    fresh = seen is not None and now - seen <= STALE_AFTER
    gpu_limit = idle.when.gpu_below if instance.offer.resources.gpus else None
    unknown: list[str] = []
    measured: tuple[tuple[str, Percent | None, float | None], ...] = (
        ("cpu", idle.when.cpu_below, instance.cpu_percent),
        ("gpu", gpu_limit, instance.gpu_percent),
    )
    for name, limit, percent in measured:
        if limit is None:
            continue
        if percent is None or not fresh:
            unknown.append(name)
        elif percent >= limit.value:
            return Load(f"{name} use is {percent:.0f}%, not below {limit}", None)
    return Load(None, f"{' and '.join(unknown)} use is unknown" if unknown else None)
