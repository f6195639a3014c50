"""The offers of all providers, as last heard; a provider that is silent keeps its last ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from policies.placement import by_price, misfit
from policies.world import Needs, Offer, PurchaseMode


class Catalogue:
    """What can be bought, by provider. Written by the reconciler, read by everybody."""

    def __init__(self) -> None:
        self._by_provider: dict[str, tuple[Offer, ...]] = {}
        self._lock = threading.Lock()
        self.version = 0
        """Grows with each change."""

    def __len__(self) -> int:
        return len(self.all())

    def update(self, provider: str, offers: Iterable[Offer]) -> None:
        found = tuple(sorted(offers, key=lambda o: o.id))
        with self._lock:
            if self._by_provider.get(provider) != found:
                self._by_provider[provider] = found
                self.version += 1

    def all(self) -> tuple[Offer, ...]:
        with self._lock:
            known = sorted(self._by_provider.items())
        return tuple(offer for _, offers in known for offer in offers)

    def fitting(self, needs: Needs) -> Iterator[Offer]:
        """The offers that a request fits, in the order of `policies.placement.by_price`."""
        return (o for o in sorted(self.all(), key=by_price) if misfit(needs, o) is None)

    def same(self, offer: Offer, mode: PurchaseMode) -> Offer | None:
        """The same machine in the same zone, bought in another mode; None when it is not sold."""
        key = (offer.provider, offer.zone, offer.instance_type, mode)
        return next(
            (o for o in self.all() if (o.provider, o.zone, o.instance_type, o.mode) == key), None
        )

    def providers(self) -> tuple[str, ...]:
        """Names of the providers that sell something."""
        return tuple(sorted({offer.provider for offer in self.all()}))

    def regions(self, provider: str | None = None) -> tuple[str, ...]:
        """Regions in which a provider, or any, sells something."""
        return tuple(sorted({o.region for o in self.all() if provider in (None, o.provider)}))
