"""What `decide` returns: decisions, each with the reasons for it and against the alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from policies.world import Offer


class ActionKind(StrEnum):
    """What is to be done about a target."""

    LAUNCH = "launch"
    START = "start"
    STOP = "stop"
    DRAIN = "drain"
    TERMINATE = "terminate"
    DELETE_VOLUME = "delete-volume"
    WARN = "warn"
    NOTIFY = "notify"
    NOTHING = "nothing"


class TargetKind(StrEnum):
    """What a decision speaks about."""

    WORKSTATION = "workstation"
    JOB = "job"
    INSTANCE = "instance"
    TEAM = "team"


class Rank(StrEnum):
    """The order of arbitration, most important first; see DESIGN's "How a request flows"."""

    SAFETY = "safety"
    HARD_BUDGET = "hard-budget"
    HOLD = "hold"
    SOFT_BUDGET = "soft-budget"
    TTL = "ttl"
    HOURS = "hours"
    IDLE = "idle"
    RIGHTSIZE = "rightsize"
    GROW = "grow"
    AUTOSCALE = "autoscale"
    DESIRE = "desire"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: the rule, where it is written, what was seen and what it was held against."""

    rank: Rank
    rule: str
    """Path of the rule in the policy (`idle.for`), or the built-in rule's name."""
    text: str
    """One sentence a team lead understands."""
    policy: str | None = None
    where: str | None = None
    """`file:line` of the rule; None for built-in ones."""
    observed: str | None = None
    threshold: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """An alternative that was not taken: another action, or an offer that was left out."""

    what: str
    """An action (`stop`) or an offer id."""
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One target's decision. `NOTHING` is a decision too, with its reasons."""

    target_kind: TargetKind
    target_id: str
    action: ActionKind
    because: tuple[Reason, ...]
    instead_of: tuple[Rejected, ...] = ()
    instance_id: str | None = None
    """The machine acted on; None for LAUNCH, WARN and NOTIFY."""
    offers: tuple[Offer, ...] = ()
    """For LAUNCH: what may be bought, best first; never empty."""
    acts_at: datetime | None = None
    """When a stop that has been announced will happen: set by WARN, and by NOTHING while the
    warning stands. None means that no warning stands any more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions of one snapshot, ordered by target kind and id."""

    snapshot_id: str
    decisions: tuple[Decision, ...]
