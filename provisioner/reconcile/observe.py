"""Asks the providers what they hold, sell and charge. Writes nothing and decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from policies.world import Offer
from provisioner.errors import ProviderError
from provisioner.providers.contract import Listing, PricePoint, Provider, Rates

_log = logging.getLogger(__name__)
LISTING_TIMEOUT_S = 10.0
"""How long a tick waits for a provider; its answer is taken by a later tick when it is late."""
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
    rates: Rates = field(default_factory=Rates)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PriceQuestion:
    """A span of an offer whose prices are wanted."""

    offer: Offer
    start: datetime


def observe(provider: Provider, questions: Iterable[PriceQuestion], now: datetime) -> Observation:
    """One provider's listing, offers and prices; a failure is an observation too."""
    try:
        return Observation(
            provider.name,
            now,
            provider.list(),
            tuple(provider.offers()),
            _all_prices(provider, questions, now),
            provider.rates(),
        )
    except ProviderError as error:
        return Observation(provider.name, now, error=str(error))
    except Exception as error:  # noqa: BLE001 (who breaks P7 must not stop the others)
        _log.exception("provider %s failed in a way that it must not", provider.name)
        return Observation(provider.name, now, error=f"{type(error).__name__}: {error}")


def _all_prices(
    provider: Provider, questions: Iterable[PriceQuestion], now: datetime
) -> dict[str, tuple[PricePoint, ...]]:
    """What could be learnt; what could not is asked again, and no listing is lost for it."""
    found: dict[str, tuple[PricePoint, ...]] = {}
    for question in questions:
        try:
            found[question.offer.id] = _prices(provider, question, now)
        except ProviderError as error:
            _log.warning("provider %s tells no prices: %s", provider.name, error)
            break
    return found


def _prices(provider: Provider, question: PriceQuestion, now: datetime) -> tuple[PricePoint, ...]:
    offer = question.offer
    end = max(now, question.start + timedelta(microseconds=1))
    return tuple(provider.prices(offer.instance_type, offer.zone, offer.mode, question.start, end))
