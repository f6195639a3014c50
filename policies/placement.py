"""Stage place: from all offers to those that may be bought for one target, best first.

Cheapest first; equal prices are told apart by the offer's id, never at random, so that a stored
snapshot places alike again. Prices compare within one currency: free machines come first, then
each currency in turn. Every offer that is left out has a reason; of many, the first are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from policies.allowance import Allowance, allowance_of
from policies.globs import matches_glob
from policies.language import Policy
from policies.plan import Rank, Reason, Rejected
from policies.selection import Target, at_provider, in_order, select
from policies.spot import Strategy, reachable
from policies.world import Needs, Offer

REJECTED_KEPT = 50


@dataclass(frozen=True, slots=True)
class Placement:
    """Offers to try, best first, and why the others were left out."""

    offers: tuple[Offer, ...]
    rejected: tuple[Rejected, ...]
    because: tuple[Reason, ...] = ()
    """Why these, or, with no offers, a summary of why none."""


def allowed_offers(
    needs: Needs,
    target: Target,
    offers: Sequence[Offer],
    policies: Sequence[Policy],
    *,
    unseen: int = 0,
    has_deadline: bool = False,
) -> Placement:
    """What could ever be bought for a request, whatever the hour, the budget or the market.

    `unseen` more are known that are dearer or do not fit. No offers means that waiting will not
    help; `because` and `rejected` then name the lines.
    """
    speaking = select(in_order(policies), target)
    strategy = Strategy.of(speaking)
    fitting, log = judge(needs, speaking, offers, unseen)
    kept: list[Offer] = []
    seatless = [p for p in speaking if p.allow and p.allow.instances_per_user == 0]
    for offer in fitting:
        reason = None if has_deadline else reachable(strategy, offer)
        if reason is None and (closed := at_provider(seatless, offer.provider)):
            text = f"{closed[0].name} allows no machines at all"
            reason = closed[0].reason(Rank.SAFETY, "allow.instances_per_user", text, "1", "0")
        if reason is None:
            kept.append(offer)
        else:
            log.add(offer, reason)
    because = () if kept else (log.summary(),)
    return Placement(tuple(kept), log.rejected(), because)


def judge(
    needs: Needs, policies: Sequence[Policy], offers: Sequence[Offer], unseen: int = 0
) -> tuple[tuple[Offer, ...], RejectLog]:
    """The offers that fit and are allowed, cheapest first, and the reasons of all others.

    `unseen` more are known that are dearer or do not fit.
    """
    judged = Judge(needs, policies)
    fitting: list[Offer] = []
    log = RejectLog(unseen)
    for offer in sorted(offers, key=by_price):
        reason = judged.refusal(offer)
        if reason is None:
            fitting.append(offer)
        else:
            log.add(offer, reason)
    return tuple(fitting), log


class Judge:
    """Whether offers fit a request and are allowed, one by one."""

    def __init__(self, needs: Needs, policies: Sequence[Policy]) -> None:
        self._needs = needs
        self._policies = policies
        self._allowances: dict[str, Allowance] = {}

    def refusal(self, offer: Offer) -> Reason | None:
        """Why an offer will not do, whatever the hour and the market; None when it will."""
        allowance = self._allowances.get(offer.provider)
        if allowance is None:
            allowance = allowance_of(at_provider(self._policies, offer.provider))
            self._allowances[offer.provider] = allowance
        return misfit(self._needs, offer) or allowance.refusal(offer)


def by_price(offer: Offer) -> tuple[bool, str, Decimal, str]:
    free = offer.price_per_hour == 0
    return (not free, "" if free else offer.currency, offer.price_per_hour, offer.id)


def misfit(needs: Needs, offer: Offer) -> Reason | None:
    """Why an offer does not have what is needed; None when it does."""
    for rule, observed in _MISFITS.items():
        found = observed(needs, offer)
        if found is not None:
            has, wanted = found
            text = f"{wanted} is asked for, and this has {has}"
            return Reason(Rank.DESIRE, rule, text, observed=has, threshold=wanted)
    return None


class RejectLog:
    """Offers left out: the first with their reasons, all of them counted."""

    def __init__(self, unseen: int = 0) -> None:
        self._unseen = unseen
        self._kept: list[Rejected] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, offer: Offer, reason: Reason) -> None:
        self._counts[reason.rule, reason.where or ""] += 1
        if len(self._kept) < REJECTED_KEPT:
            self._kept.append(Rejected(offer.id, (reason,)))

    def copy(self) -> RejectLog:
        twin = RejectLog(self._unseen)
        twin._kept, twin._counts = list(self._kept), self._counts.copy()
        return twin

    def rejected(self) -> tuple[Rejected, ...]:
        return tuple(self._kept)

    def summary(self) -> Reason:
        """Why none of the offers will do, in one sentence that names the lines."""
        total = self._counts.total() + self._unseen
        if total == self._unseen > 0:
            text = f"none of {total} offers has what is asked for"
            return Reason(Rank.DESIRE, "placement", text)
        if total == 0:
            text = "there are no offers at all; no provider is set up, or none has answered yet"
            return Reason(Rank.DESIRE, "placement", text)
        causes = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        parts = [
            f"{count} by {rule}" + (f" ({where})" if where else "")
            for (rule, where), count in causes
        ]
        parts += [f"{self._unseen} that do not fit or cost more"] if self._unseen else []
        text = f"none of {total} offers can be bought: {', '.join(parts)}"
        where = causes[0][0][1] or None
        return Reason(Rank.DESIRE, "placement", text, where=where)


Found = tuple[str, str] | None


def _lacks(unit: str, has: float, wanted: float) -> Found:
    return (f"{has:g} {unit}", f"{wanted:g} {unit}") if has < wanted else None


def _differs(has: str, wanted: str | None) -> Found:
    return (has, wanted) if wanted is not None and has.casefold() != wanted.casefold() else None


def _elsewhere(has: str, wanted: str | None) -> Found:
    if wanted is None or matches_glob(wanted.casefold(), has.casefold()):
        return None
    return (has, wanted)


def _dearer(needs: Needs, offer: Offer) -> Found:
    cap = needs.max_price_per_hour
    if cap is None or offer.price_per_hour <= cap:
        return None
    return (f"{offer.price_per_hour} {offer.currency} an hour", f"at most {cap}")


_MISFITS: Mapping[str, Callable[[Needs, Offer], Found]] = {
    "needs.provider": lambda n, o: _differs(o.provider, n.provider),
    "needs.region": lambda n, o: _elsewhere(o.region, n.region),
    "needs.zone": lambda n, o: _differs(o.zone, n.zone),
    "needs.mode": lambda n, o: _differs(o.mode.value, n.mode.value if n.mode else None),
    "needs.gpu_model": lambda n, o: _differs(
        o.resources.gpu_model or "no GPU", n.resources.gpu_model
    ),
    "needs.gpus": lambda n, o: _lacks("GPUs", o.resources.gpus, n.resources.gpus),
    "needs.cpus": lambda n, o: _lacks("CPUs", o.resources.cpus, n.resources.cpus),
    "needs.memory_gib": lambda n, o: _lacks("GiB", o.resources.memory_gib, n.resources.memory_gib),
    "needs.max_price_per_hour": _dearer,
}
