"""Whether a request can ever be met, and what it may cost, before it is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from policies.explain import sentence
from policies.globs import matches_glob
from policies.placement import Placement, allowed_offers
from policies.selection import Target, in_order, select
from policies.world import Needs, Offer, OwnerKind, PurchaseMode
from provisioner.errors import InvalidError, RefusedError
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.market import Market, Request
from provisioner.policybook import load_active
from provisioner.store.engine import Connection

RESERVED_FOR_A_WORKSTATION = timedelta(hours=8)
"""A started workstation sets this much of its team's budget aside: a working day."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that an hour may cost, and whose volume the home would be."""

    price_per_hour: Decimal
    currency: str
    provider: str

    def of(self, span: timedelta) -> Decimal:
        hours = Decimal(span // timedelta(microseconds=1)) / Decimal(3_600_000_000)
        return self.price_per_hour * hours


def ceiling(
    connection: Connection,
    market: Market,
    needs: Needs,
    kind: OwnerKind,
    *,
    team: str,
    user: str,
    labels: Mapping[str, str],
    has_deadline: bool = False,
) -> Ceiling:
    """What a request may cost an hour.

    Raises:
        InvalidError: the provider or region is unknown, or nothing of that size is sold.
        RefusedError: no policy allows what fits; the lines are named.
    """
    _check_known(needs, market.catalogue)
    policies = load_active(connection)
    target = Target(kind, team, user, tuple(sorted(labels.items())))
    offers = market.candidates(Request(needs, select(in_order(policies), target)))
    found = allowed_offers(
        needs,
        target,
        offers,
        policies,
        unseen=len(market.catalogue) - len(offers),
        has_deadline=has_deadline,
    )
    if not found.offers:
        raise RefusedError(
            f"Nothing that can be bought fits this request: {_why(found)}.",
            remedy="Ask for a size that is sold (`roost offers`), "
            "or have the named policy line changed.",
        )
    can_be_bought = _open(found.offers, market)
    cheapest: dict[PurchaseMode, Offer] = {}
    for offer in sorted(can_be_bought, key=lambda o: (o.price_per_hour, o.id)):
        cheapest.setdefault(offer.mode, offer)
    dearest = max(cheapest.values(), key=lambda o: o.price_per_hour)
    return Ceiling(dearest.price_per_hour, dearest.currency, can_be_bought[0].provider)


def _open(offers: Sequence[Offer], market: Market) -> list[Offer]:
    """Those at providers that can be bought from at all.

    Raises:
        RefusedError: there is none; it says what to mend.
    """
    closed = {offer.id: market.closure(offer) for offer in offers}
    found = [offer for offer in offers if closed[offer.id] is None]
    if not found:
        first = next(closure for closure in closed.values() if closure is not None)
        raise RefusedError(
            f"What fits this request is sold by {first.scope}, which cannot be used: "
            f"{first.reason}.",
            remedy=first.remedy,
        )
    return found


def _check_known(needs: Needs, catalogue: Catalogue) -> None:
    providers = catalogue.providers()
    if needs.provider is not None and needs.provider not in providers:
        raise InvalidError(
            f"There is no provider {needs.provider!r}.",
            remedy=f"Use one of: {', '.join(providers) or 'none is set up'}.",
        )
    regions = catalogue.regions(needs.provider)
    if needs.region is not None and not any(matches_glob(needs.region, r) for r in regions):
        raise InvalidError(
            f"There is no region {needs.region!r}.",
            remedy=f"Use one of: {', '.join(regions)}.",
        )


def _why(found: Placement) -> str:
    """The summary, else the most frequent reasons for which offers were left out."""
    reasons = [reason.text for reason in found.because]
    if not reasons:
        counted: dict[str, int] = {}
        for rejected in found.rejected:
            for reason in rejected.reasons:
                text = sentence(reason)
                counted[text] = counted.get(text, 0) + 1
        reasons = sorted(counted, key=lambda text: (-counted[text], text))
    return "; ".join(reasons[:_SHOWN]) or "no provider sells anything"
