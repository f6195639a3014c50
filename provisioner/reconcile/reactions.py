"""What to do about each error of a provider: one reaction each, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaError,
    ThrottledError,
)
from provisioner.store.cooldowns import LONGEST


class Reaction(StrEnum):
    """What becomes of the action."""

    NEXT_OFFER = "next-offer"
    """This launch is over; its owner is placed again, elsewhere while the cooldown lasts."""
    RETRY = "retry"
    """The same call again, later."""
    GIVE_UP = "give-up"
    """It can never work: the owner is told."""
    GONE = "gone"
    """Treat the machine as gone."""
    LOOK_FIRST = "look-first"
    """Observe before anything is sent again."""


class Scope(StrEnum):
    """How much of the provider is cooled down."""

    NONE = "none"
    OFFER = "offer"
    TYPE = "type"
    """This type and mode in all zones of the region: what a quota is about."""
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Rule:
    reaction: Reaction
    cools: Scope = Scope.NONE
    for_: timedelta = timedelta()
    longest: timedelta = LONGEST
    tell: bool = False
    """Whether an administrator has to do something."""


_ROOM_SOON = timedelta(minutes=1)
"""Room comes and goes, and to ask for it costs nothing: jobs must not wait beside free machines."""

_TABLE: tuple[tuple[type[ProviderError], Rule], ...] = (
    (CapacityError, Rule(Reaction.NEXT_OFFER, Scope.OFFER, timedelta(seconds=15), _ROOM_SOON)),
    (QuotaError, Rule(Reaction.NEXT_OFFER, Scope.TYPE, timedelta(minutes=10), tell=True)),
    (ThrottledError, Rule(Reaction.RETRY)),
    (AuthError, Rule(Reaction.NEXT_OFFER, Scope.PROVIDER, timedelta(minutes=10), tell=True)),
    (InvalidRequest, Rule(Reaction.GIVE_UP)),
    (NotFound, Rule(Reaction.GONE)),
    (Ambiguous, Rule(Reaction.LOOK_FIRST)),
    (ProviderError, Rule(Reaction.NEXT_OFFER, Scope.OFFER, timedelta(seconds=30), tell=True)),
)


def rule_for(error: ProviderError) -> Rule:
    """The rule of the most specific class in the table."""
    return next(rule for kind, rule in _TABLE if isinstance(error, kind))


def retry_delay(tries: int, advice_s: float | None = None) -> timedelta:
    """Exponential from 2 s to 2 min, or what the provider asked for when that is longer."""
    own = min(2.0 * 2 ** min(tries, 10), 120.0)
    return timedelta(seconds=max(own, advice_s or 0.0))


def cooled_scope(scope: Scope, offer_id: str) -> str | None:
    """What of an offer's id a rule cools, as `policies.world.Cooldown` says it."""
    parts = offer_id.split("/")
    match scope:
        case Scope.OFFER:
            return offer_id
        case Scope.TYPE:
            return "/".join((*parts[:2], "*", *parts[3:]))
        case Scope.PROVIDER:
            return parts[0]
        case Scope.NONE:
            return None
