"""The rule `capacity`: in which mode to buy, and when the preferred one no longer will do.

A deadline is kept before money is saved: a job whose remaining work, two more moves and some
slack no longer fit before its deadline is bought on demand (the "safety net" of uniform-progress
scheduling: Wu et al., "Can't Be Late", NSDI 2024). Machines that cost nothing always count as
preferred. Which offers exist, fit and are allowed is settled before this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from policies.language import Capacity, Policy
from policies.moments import at, between, span
from policies.plan import Rank, Reason
from policies.world import Job, Offer, PurchaseMode

SLACK_SHARE = 0.05
"""Of the work that is left, kept as slack: estimates are short more often than long."""
CHANGEOVERS = 2
"""Moves that must still fit: the one to the new machine, and one more interruption."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one target is to be bought; `policy` None is no preference: the cheapest of any mode."""

    policy: Policy | None = None
    capacity: Capacity | None = None

    @classmethod
    def of(cls, policies: Sequence[Policy]) -> Strategy:
        """The first policy, by name, that has a preference; `check_policies` warns of a second."""
        for policy in policies:
            if policy.capacity is not None and policy.capacity.prefer is not None:
                return cls(policy, policy.capacity)
        return cls()


@dataclass(frozen=True, slots=True)
class Purchase:
    """Offers in the order to try them, why, and those that are not (yet) to be bought."""

    offers: tuple[Offer, ...]
    because: tuple[Reason, ...] = ()
    left_out: tuple[tuple[Offer, Reason], ...] = ()


def purchase(
    strategy: Strategy,
    available: Sequence[Offer],
    *,
    exist: Sequence[Offer],
    without_since: datetime | None,
    pressing: Reason | None,
    now: datetime,
    desk: bool = False,
) -> Purchase:
    """Order the available offers, which come cheapest first.

    `exist` are the offers that fit, cooled down ones included; `without_since` is since when
    the target has found none in the preferred mode; `pressing` is a deadline's demand. A `desk`
    is put on spot only where a policy or its person says so.
    """
    if pressing is not None:
        firm = [offer for offer in available if offer.mode is not PurchaseMode.SPOT]
        rest = [offer for offer in available if offer.mode is PurchaseMode.SPOT]
        return Purchase((*firm, *rest), (pressing,))
    policy, capacity = strategy.policy, strategy.capacity
    if policy is None or capacity is None or capacity.prefer is None:
        return _unasked(available) if desk else Purchase(tuple(available))
    prefer = capacity.prefer
    first = [offer for offer in available if preferred(offer, prefer)]
    any_exists = any(preferred(offer, prefer) for offer in exist)
    opened, reason = _fall_back(policy, capacity, any_exists, without_since, now)
    second: list[Offer] = []
    left_out: list[tuple[Offer, Reason]] = []
    for offer in available:
        if preferred(offer, prefer):
            continue
        if opened and offer.mode is capacity.fall_back_to:
            second.append(offer)
        else:
            left_out.append((offer, reason))
    if first and not second:
        text = f"capacity.prefer is {prefer}"
        reason = policy.reason(Rank.DESIRE, "capacity.prefer", text)
    return Purchase((*first, *second), (reason,), tuple(left_out))


def _unasked(available: Sequence[Offer]) -> Purchase:
    """Without a preference: what nobody takes away first, so that no work is lost unasked."""
    firm = [offer for offer in available if offer.mode is not PurchaseMode.SPOT]
    rest = [offer for offer in available if offer.mode is PurchaseMode.SPOT]
    text = "no policy has capacity.prefer, and a workstation is not put on spot unasked"
    return Purchase((*firm, *rest), (Reason(Rank.DESIRE, "capacity.prefer", text),))


def preferred(offer: Offer, prefer: PurchaseMode) -> bool:
    return offer.mode is prefer or offer.price_per_hour == 0


def reachable(strategy: Strategy, offer: Offer) -> Reason | None:
    """Why no waiting would ever have this offer bought; None when it might be."""
    policy, capacity = strategy.policy, strategy.capacity
    if policy is None or capacity is None or capacity.prefer is None:
        return None
    if preferred(offer, capacity.prefer) or offer.mode is capacity.fall_back_to:
        return None
    return policy.reason(Rank.DESIRE, "capacity.prefer", _never(capacity), offer.mode.value)


def pressing_deadline(job: Job, now: datetime, zone: tzinfo) -> Reason | None:
    """Why a job can no longer wait for spot; None while it can, or has no deadline."""
    return _deadline(job, now, zone, over=True, means="leaves no time for spot after")


def deadline_note(job: Job, now: datetime, zone: tzinfo) -> Reason | None:
    """How long a job may still be on spot; None without a deadline, or past that moment."""
    return _deadline(job, now, zone, over=False, means="allows spot until")


def _deadline(job: Job, now: datetime, zone: tzinfo, *, over: bool, means: str) -> Reason | None:
    if job.deadline is None:
        return None
    latest, basis = latest_on_spot(job, job.deadline)
    if (now >= latest) is not over:
        return None
    until = at(latest, now, zone)
    return Reason(
        Rank.DESIRE,
        "spot.deadline",
        f"its deadline {at(job.deadline, now, zone)} {means} {until}: {basis}",
        observed=at(now, now, zone),
        threshold=until,
    )


def latest_on_spot(job: Job, deadline: datetime) -> tuple[datetime, str]:
    """The last moment at which spot may still be bought, and what that was computed from.

    Nobody knowing how much work is left, half of the time from its queueing to its deadline is
    given to spot, and the other half kept.
    """
    if job.work_left_s is None:
        latest = job.queued_at + (deadline - job.queued_at) / 2
        moves = timedelta(seconds=CHANGEOVERS * job.changeover_s)
        return min(latest, deadline - moves), "nobody knows its work left, so half the time is kept"
    slack = max(job.work_left_s * SLACK_SHARE, job.changeover_s)
    needed = job.work_left_s + CHANGEOVERS * job.changeover_s + slack
    basis = (
        f"{span(job.work_left_s)} of work, {CHANGEOVERS} moves of {span(job.changeover_s)} "
        f"and {span(slack)} of slack"
    )
    return deadline - timedelta(seconds=needed), basis


def _fall_back(
    policy: Policy,
    capacity: Capacity,
    any_exists: bool,
    without_since: datetime | None,
    now: datetime,
) -> tuple[bool, Reason]:
    """Whether the second mode may be bought now, and the reason for either."""
    mode, when = capacity.fall_back_to, capacity.fall_back_when
    if mode is None:
        return False, policy.reason(Rank.DESIRE, "capacity.prefer", _never(capacity))
    if not any_exists:
        text = f"no {capacity.prefer} offer fits at all, so capacity falls back to {mode}"
        return True, policy.reason(Rank.DESIRE, "capacity.fall_back_to", text)
    if when is None or capacity.prefer is not PurchaseMode.SPOT:
        text = f"{mode} comes after {capacity.prefer}"
        return True, policy.reason(Rank.DESIRE, "capacity.fall_back_to", text)
    limit = when.no_spot_for
    waited = between(without_since, now) if without_since else "0s"
    opened = without_since is not None and now - without_since >= limit.delta
    text = f"no spot for {waited}: {mode} comes after {limit}"
    rule = "capacity.fall_back_when.no_spot_for"
    return opened, policy.reason(Rank.DESIRE, rule, text, waited, str(limit))


def _never(capacity: Capacity) -> str:
    modes = [str(mode) for mode in (capacity.prefer, capacity.fall_back_to) if mode]
    return f"capacity buys {' and then '.join(modes)} only"
