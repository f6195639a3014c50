"""Whether a request can ever be met, and what it may cost, before it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from policies.explain import sentence
from policies.globs import matches_glob
from policies.placement import Placement, allowed_offers
from policies.world import Needs, Offer, OwnerKind, PurchaseMode
from provisioner.errors import InvalidError, RefusedError
from provisioner.offers.catalogue import Catalogue
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
    catalogue: Catalogue,
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
    offers = catalogue.all()
    _check_known(needs, offers)
    found = allowed_offers(
        needs,
        kind,
        team,
        user,
        tuple(sorted(labels.items())),
        offers,
        load_active(connection),
        has_deadline=has_deadline,
    )
    if not found.offers:
        raise RefusedError(
            f"Nothing that can be bought fits this request: {_why(found)}.",
            remedy="Ask for a size that is sold (`roost offers`), "
            "or have the named policy line changed.",
        )
    cheapest: dict[PurchaseMode, Offer] = {}
    for offer in sorted(found.offers, key=lambda o: (o.price_per_hour, o.id)):
        cheapest.setdefault(offer.mode, offer)
    dearest = max(cheapest.values(), key=lambda o: o.price_per_hour)
    return Ceiling(dearest.price_per_hour, dearest.currency, found.offers[0].provider)


def _check_known(needs: Needs, offers: tuple[Offer, ...]) -> None:
    providers = sorted({offer.provider for offer in offers})
    if needs.provider is not None and needs.provider not in providers:
        raise InvalidError(
            f"There is no provider {needs.provider!r}.",
            remedy=f"Use one of: {', '.join(providers) or 'none is set up'}.",
        )
    regions = sorted({o.region for o in offers if needs.provider in (None, o.provider)})
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
