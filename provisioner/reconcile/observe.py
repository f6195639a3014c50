"""Asks the providers what they hold, sell and charge. Writes nothing and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from policies.world import Offer
from provisioner.calls import Calls
from provisioner.errors import ProviderError
from provisioner.providers.contract import Listing, PricePoint, Provider

LISTING_TIMEOUT_S = 20.0
PRICES_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one provider said; `listing` is None when it did not answer."""

    provider: str
    at: datetime
    listing: Listing | None = None
    offers: tuple[Offer, ...] = ()
    prices: Mapping[str, tuple[PricePoint, ...]] = field(default_factory=dict)
    """By price series."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PriceQuestion:
    """A span of an offer whose prices are wanted."""

    offer: Offer
    start: datetime


def observe(
    provider: Provider, questions: Iterable[PriceQuestion], calls: Calls, now: datetime
) -> Observation:
    """One provider's listing, offers and prices; a failure is an observation too."""

    def ask() -> Observation:
        listing = provider.list()
        return Observation(
            provider.name,
            now,
            listing,
            tuple(provider.offers()),
            {q.offer.id: _prices(provider, q, now) for q in questions},
        )

    try:
        return calls.ask(provider.name, ask, LISTING_TIMEOUT_S)
    except (ProviderError, TimeoutError) as error:
        return Observation(provider.name, now, error=str(error))


def _prices(provider: Provider, question: PriceQuestion, now: datetime) -> tuple[PricePoint, ...]:
    offer = question.offer
    end = max(now, question.start + timedelta(microseconds=1))
    return tuple(provider.prices(offer.instance_type, offer.zone, offer.mode, question.start, end))
