"""The offers of all providers, as last heard; a provider that is silent keeps its last ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from policies.world import Offer


class Catalogue:
    """What can be bought, by provider. Written by the reconciler, read by everybody."""

    def __init__(self) -> None:
        self._by_provider: dict[str, tuple[Offer, ...]] = {}
        self._lock = threading.Lock()

    def update(self, provider: str, offers: Iterable[Offer]) -> None:
        with self._lock:
            self._by_provider[provider] = tuple(sorted(offers, key=lambda o: o.id))

    def all(self) -> tuple[Offer, ...]:
        with self._lock:
            known = sorted(self._by_provider.items())
        return tuple(offer for _, offers in known for offer in offers)
