"""What is sold and what of it can be had: of a hundred thousand offers, the cheapest that would do.

Providers are not asked here: the reconciler and the refresher write down what they said.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from policies.language import Policy
from policies.market import Barriers, closing
from policies.placement import Judge, by_price
from policies.world import Closure, Cooldown, Needs, Offer, PurchaseMode, Quota
from provisioner.offers.catalogue import Catalogue
from provisioner.providers.contract import Rates

WHOLE = 1000
"""A catalogue of so many offers is looked at whole, and each offer has its reason."""
KEPT = 300
"""Offers of each mode kept for a request; of them the first `OPEN` that can be had are decided on,
so that no more are tried before the next look."""
OPEN = 40
BARRED = 10
"""Offers of each mode that cannot be had now, kept so that it is known that they exist."""
REFUSED = 30
"""Offers that will not do, kept for their reasons."""


@dataclass(frozen=True, slots=True)
class Request:
    """What waits for a machine, and the policies that speak of it."""

    needs: Needs
    policies: tuple[Policy, ...]


_Key = tuple[Needs, tuple[int, ...]]
_Found = tuple[tuple[Offer, ...], tuple[Offer, ...]]
"""What fits and is allowed, and the first of what fits and is not."""


class Market:
    """Chooses by price among what fits and is allowed. Remembers it until the catalogue changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.closures_now: Callable[[], tuple[Closure, ...]] = tuple
        self.rates: dict[str, Rates] = {}
        """What each provider bills beside machines."""
        self.interruptions: dict[tuple[str, str, str], float] = {}
        """How often spot is taken back, by provider, region and type: a share a month."""
        self.source_errors: dict[str, str] = {}
        """Why a source could not be read the last time."""
        self._quotas: dict[str, tuple[Quota, ...]] = {}
        self._version = -1
        self._known: dict[_Key, tuple[Request, _Found]] = {}
        self._lock = threading.Lock()

    @property
    def closures(self) -> tuple[Closure, ...]:
        """What cannot be bought until somebody mends it."""
        return self.closures_now()

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """As the providers told them last."""
        return tuple(quota for _, some in sorted(self._quotas.items()) for quota in some)

    def note_source(self, source: str, error: str | None) -> None:
        """How a source answered last."""
        self.source_errors.pop(source, None)
        if error is not None:
            self.source_errors[source] = error

    def note_quotas(self, provider: str, quotas: Iterable[Quota]) -> None:
        self._quotas[provider] = tuple(quotas)

    def barriers(self, cooldowns: Iterable[Cooldown], now: datetime) -> Barriers:
        return Barriers(cooldowns, self.closures, self.quotas, now)

    def closure(self, offer: Offer) -> Closure | None:
        """Why nothing can be bought there until somebody mends it; None when it is open."""
        return closing({closure.scope: closure for closure in self.closures}, offer)

    def shortlist(
        self, requests: Iterable[Request], barriers: Barriers
    ) -> tuple[tuple[Offer, ...], int | None]:
        """The offers to decide on, and how many there are in all (None: these are all)."""
        total = len(self.catalogue)
        if total <= WHOLE:
            return self.catalogue.all(), None
        chosen: dict[str, Offer] = {}
        for request in requests:
            allowed, refused = self._looked_up(request)
            for offer in (*_open(allowed, barriers), *refused):
                chosen[offer.id] = offer
        return tuple(sorted(chosen.values(), key=by_price)), total

    def candidates(self, request: Request) -> tuple[Offer, ...]:
        """What could ever be bought for a request, and the first of what could not, by price."""
        if len(self.catalogue) <= WHOLE:
            return self.catalogue.all()
        allowed, refused = self._looked_up(request)
        return tuple(sorted((*allowed, *refused), key=by_price))

    def _looked_up(self, request: Request) -> _Found:
        """The answer to a request, of which the policies are told apart by identity."""
        key = (request.needs, tuple(id(policy) for policy in request.policies))
        with self._lock:
            version = self.catalogue.version
            if version != self._version:
                self._version, self._known = version, {}
            if key not in self._known:
                self._known[key] = (request, self._look_up(request))
            return self._known[key][1]

    def _look_up(self, request: Request) -> _Found:
        judge = Judge(request.needs, request.policies)
        allowed: dict[PurchaseMode, list[Offer]] = {mode: [] for mode in PurchaseMode}
        refused: list[Offer] = []
        for offer in self.catalogue.fitting(request.needs):
            if judge.refusal(offer) is None:
                if len(allowed[offer.mode]) < KEPT:
                    allowed[offer.mode].append(offer)
            elif len(refused) < REFUSED:
                refused.append(offer)
            if len(allowed[PurchaseMode.SPOT]) >= KEPT <= len(allowed[PurchaseMode.ON_DEMAND]):
                break
        found = sorted((offer for some in allowed.values() for offer in some), key=by_price)
        return tuple(found), tuple(refused)


def _open(allowed: Sequence[Offer], barriers: Barriers) -> list[Offer]:
    """The first that can be had, and a few of those that cannot."""
    taken: Counter[tuple[PurchaseMode, bool]] = Counter()
    chosen = []
    for offer in allowed:
        barred = barriers.reason(offer) is not None
        taken[offer.mode, barred] += 1
        if taken[offer.mode, barred] <= (BARRED if barred else OPEN):
            chosen.append(offer)
    return chosen
