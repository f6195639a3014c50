"""The launch of one target: everything that can stand in its way, then its ranked offers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from policies.budget import Effects
from policies.placement import Placement
from policies.plan import Rank, Reason
from policies.spot import Strategy, purchase
from policies.view import View
from policies.world import Job, Offer, PurchaseMode, Workstation


@dataclass(frozen=True, slots=True)
class Gate:
    """What a launch of one target has to pass at one provider."""

    block: Reason | None
    """Why nothing at all may be launched there now."""
    effects: Effects
    """What the budget leaves; free machines pass."""


def place(
    view: View,
    owner: Workstation | Job,
    gate_at: Callable[[str], Gate],
    *,
    without_since: datetime | None,
    pressing: Reason | None,
) -> Placement:
    """Offers that may be bought now, best first, and the reason for each that may not."""
    policies = view.policies_for(owner)
    fitting, log = view.judged(owner.needs, policies)
    gates: dict[str, Gate] = {}
    exist: list[Offer] = []
    available: list[Offer] = []
    blocks: list[Reason] = []
    for offer in fitting:
        gate = gates.get(offer.provider)
        if gate is None:
            gate = gates[offer.provider] = gate_at(offer.provider)
        reason = gate.block or _unaffordable(gate.effects, offer)
        if reason is not None:
            blocks.append(reason)
        else:
            exist.append(offer)
            reason = view.barred(offer)
        if reason is None:
            available.append(offer)
        else:
            log.add(offer, reason)
    bought = purchase(
        Strategy.of(policies),
        available,
        exist=exist,
        without_since=without_since,
        pressing=pressing,
        now=view.now,
        desk=isinstance(owner, Workstation),
    )
    for offer, reason in bought.left_out:
        log.add(offer, reason)
    if bought.offers:
        offers, moved = _elsewhere_first(bought.offers, owner.taken_from)
        return Placement(offers, log.rejected(), (*bought.because, *moved))
    return Placement((), log.rejected(), _why_none(log.summary(), blocks, bought.because))


def _elsewhere_first(
    offers: tuple[Offer, ...], taken_from: str | None
) -> tuple[tuple[Offer, ...], tuple[Reason, ...]]:
    """The zone that has just taken this owner's machine comes last, once."""
    if taken_from is None:
        return offers, ()
    here = tuple(offer for offer in offers if offer.id.startswith(taken_from + "/"))
    there = tuple(offer for offer in offers if not offer.id.startswith(taken_from + "/"))
    if not here or not there:
        return offers, ()
    text = f"its last machine was taken in {taken_from}, so other zones come first"
    return (*there, *here), (Reason(Rank.DESIRE, "preemption", text, observed=taken_from),)


def _unaffordable(effects: Effects, offer: Offer) -> Reason | None:
    if offer.price_per_hour == 0:
        return None
    if effects.no_new is not None:
        return effects.no_new
    return effects.spot_only if offer.mode is not PurchaseMode.SPOT else None


def _why_none(
    summary: Reason, blocks: list[Reason], because: tuple[Reason, ...]
) -> tuple[Reason, ...]:
    """The rule that stood in the way, if one did, then the summary of all offers."""
    if blocks:
        ranks = list(Rank)
        first = min(blocks, key=lambda r: (ranks.index(r.rank), r.rule, r.where or ""))
        return (first, replace(summary, rank=first.rank))
    return (summary, *because)
