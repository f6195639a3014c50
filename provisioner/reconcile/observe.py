"""Asks the providers what they hold and charge. Writes nothing and decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from policies.world import Offer, Quota
from provisioner.errors import ProviderError
from provisioner.providers.contract import Listing, Notice, PricePoint, Provider, Rates

T = TypeVar("T")
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
    prices: Mapping[str, tuple[PricePoint, ...]] = field(default_factory=dict)
    """By price series."""
    rates: Rates = field(default_factory=Rates)
    quotas: tuple[Quota, ...] | None = None
    """None when they could not be learnt."""
    notices: tuple[Notice, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PriceQuestion:
    """A span of an offer whose prices are wanted."""

    offer: Offer
    start: datetime


def observe(provider: Provider, questions: Iterable[PriceQuestion], now: datetime) -> Observation:
    """One provider's listing, prices and limits; a failure is an observation too."""
    try:
        return Observation(
            provider.name,
            now,
            provider.list(),
            _all_prices(provider, questions, now),
            _or(provider.rates, Rates()),
            _or(lambda: tuple(provider.quotas()), None),
            _or(lambda: tuple(provider.notices()), ()),
        )
    except ProviderError as error:
        return Observation(provider.name, now, error=str(error))
    except Exception as error:  # noqa: BLE001 (who breaks P7 must not stop the others)
        _log.exception("provider %s failed in a way that it must not", provider.name)
        return Observation(provider.name, now, error=f"{type(error).__name__}: {error}")


def _or(ask: Callable[[], T], default: T) -> T:
    """An answer that no listing is lost for."""
    try:
        return ask()
    except ProviderError as error:
        _log.warning("a provider does not tell all: %s", error)
        return default


def _all_prices(
    provider: Provider, questions: Iterable[PriceQuestion], now: datetime
) -> dict[str, tuple[PricePoint, ...]]:
    """What could be learnt; what could not is asked again, and no listing is lost for it.

    A region that does not answer is not asked further, and keeps no other's prices back.
    """
    found: dict[str, tuple[PricePoint, ...]] = {}
    silent: set[str] = set()
    for question in questions:
        if question.offer.region in silent:
            continue
        try:
            found[question.offer.id] = _prices(provider, question, now)
        except ProviderError as error:
            _log.warning("provider %s tells no prices: %s", provider.name, error)
            silent.add(question.offer.region)
    return found


def _prices(provider: Provider, question: PriceQuestion, now: datetime) -> tuple[PricePoint, ...]:
    offer = question.offer
    end = max(now, question.start + timedelta(microseconds=1))
    return tuple(provider.prices(offer.instance_type, offer.zone, offer.mode, question.start, end))
