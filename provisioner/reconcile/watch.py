"""Watches the providers: who is asked for what, and when; and how each of them answers."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from policies.world import Offer
from provisioner.calls import Calls
from provisioner.clock import Clock
from provisioner.errors import ProviderError
from provisioner.offers.market import Market
from provisioner.providers.contract import Provider
from provisioner.providers.registry import Providers
from provisioner.reconcile.observe import (
    LISTING_TIMEOUT_S,
    PRICES_EVERY,
    Observation,
    PriceQuestion,
    observe,
)
from provisioner.store import instances
from provisioner.store.engine import Store

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """How a provider answered last."""

    name: str
    listed_at: datetime | None = None
    error: str | None = None
    silent_regions: frozenset[str] = frozenset()
    offered_at: datetime | None = None
    offers_error: str | None = None


class Watch:
    """Keeps each provider's own pace, and never lets one that hangs delay another's answer."""

    def __init__(
        self, store: Store, clock: Clock, calls: Calls, providers: Providers, market: Market
    ) -> None:
        self._store = store
        self._clock = clock
        self._calls = calls
        self._providers = providers
        self._market = market
        self._priced_at: dict[str, datetime] = {}
        self._asked_at: dict[str, datetime] = {}
        """When each question was asked last: `aws`, `aws offers`."""
        self._waits: set[str] = set()
        """The questions that have no answer yet."""
        self.health: dict[str, ProviderHealth] = {n: ProviderHealth(n) for n in providers}

    def observe(self) -> list[Observation]:
        """What the providers hold that are due: one that hangs costs the others its limit, once."""
        now = self._clock.now()
        self.refresh_offers(0.0)
        questions = {
            name: functools.partial(observe, provider, self._price_questions(name, now), now)
            for name, provider in self._due("", lambda p: p.capabilities.list_every_s).items()
        }
        answers = self._gather(questions, LISTING_TIMEOUT_S)
        seen = [
            answers.get(name) or Observation(name, now, error="it does not answer")
            for name in questions
        ]
        for observation in seen:
            self._note(observation)
        return seen

    def note_priced(self, seen: Observation) -> None:
        """These prices are written down."""
        self._priced_at |= dict.fromkeys(seen.prices, seen.at)

    def refresh_offers(self, wait_s: float) -> None:
        """Take the offers that have come, and ask for those that are due."""
        due = self._due(" offers", lambda p: p.capabilities.offers_every_s)
        questions = {f"{name} offers": functools.partial(_offers, p) for name, p in due.items()}
        for question, (offers, error) in self._gather(questions, wait_s).items():
            name = question.removesuffix(" offers")
            health = replace(self.health[name], offers_error=error)
            if offers is not None:
                now, can = self._clock.now(), self._providers[name].capabilities
                self._market.catalogue.update(name, offers, now, may_be_free=can.own_prices)
                health = replace(health, offered_at=now)
            self._market.note_source(name, error)
            self.health[name] = health

    def _due(self, suffix: str, every_s: Callable[[Provider], float]) -> dict[str, Provider]:
        """The providers whose answer is awaited, or to be asked for now."""
        now = self._clock.now()
        due = {}
        for name, provider in self._providers.items():
            asked = self._asked_at.get(name + suffix)
            pace = timedelta(seconds=every_s(provider))
            if asked is None or name + suffix in self._waits or now - asked >= pace:
                due[name] = provider
        return due

    def _gather(self, questions: Mapping[str, Callable[[], T]], wait_s: float) -> Mapping[str, T]:
        answers = self._calls.gather(questions, wait_s)
        for name in questions.keys() - self._waits:
            self._asked_at[name] = self._clock.now()
        self._waits = (self._waits | questions.keys()) - answers.keys()
        return answers

    def _note(self, seen: Observation) -> None:
        before = self.health[seen.provider]
        if seen.listing is None:
            self.health[seen.provider] = replace(before, error=seen.error)
            _log.warning("provider %s: %s", seen.provider, seen.error)
            return
        silent = seen.listing.silent_regions
        told = [f"no answer from {', '.join(sorted(silent))}"] if silent else []
        error = "; ".join((*told, *seen.listing.troubles)) or None
        self.health[seen.provider] = replace(
            before, listed_at=seen.at, error=error, silent_regions=silent
        )
        self._market.rates[seen.provider] = seen.rates
        if seen.quotas is not None:
            self._market.note_quotas(seen.provider, seen.quotas)

    def _price_questions(self, provider: str, now: datetime) -> list[PriceQuestion]:
        """The offers whose prices are due: of machines that run, or have just begun or ended."""
        with self._store.read() as connection:
            rows = instances.bought(connection, provider, now - 2 * PRICES_EVERY)
        starts: dict[str, PriceQuestion] = {}
        for row in rows:
            asked = self._priced_at.get(row.offer.id)
            if (
                asked is None
                or row.state_since >= asked
                or (row.live and now - asked >= PRICES_EVERY)
            ):
                start = min(row.created_at, asked or row.created_at) - timedelta(hours=1)
                known = starts.get(row.offer.id)
                if known is None or start < known.start:
                    starts[row.offer.id] = PriceQuestion(row.offer, start)
        return list(starts.values())


def _offers(provider: Provider) -> tuple[tuple[Offer, ...] | None, str | None]:
    """What a provider sells, or why it does not say."""
    try:
        return tuple(provider.offers()), None
    except ProviderError as error:
        _log.warning("provider %s tells no offers: %s", provider.name, error)
        return None, str(error)
    except Exception as error:  # noqa: BLE001 (who breaks P7 must not stop the others)
        _log.exception("provider %s failed in a way that it must not", provider.name)
        return None, f"{type(error).__name__}: {error}"
