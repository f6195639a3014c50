"""A cloud for each thread and endpoint: libcloud's connections must not be shared (measured: of 480
answers that 8 threads got through one driver, 2 were another thread's)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from provisioner.providers.libcloud.cloud import Cloud


class Clouds:
    """Makes them when a thread first asks. Making one is locked: libcloud's import of a driver and
    its caches are not safe for threads either."""

    def __init__(self, make: Callable[[str], Cloud], endpoints: Sequence[str]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._own = threading.local()
        self.endpoints = tuple(endpoints)
        """The regions, or one empty word where one endpoint answers for all."""

    def at(self, endpoint: str) -> Cloud:
        """This thread's own."""
        mine: dict[str, Cloud] = self._own.__dict__.setdefault("clouds", {})
        if endpoint not in mine:
            with self._lock:
                mine[endpoint] = self._make(endpoint)
        return mine[endpoint]

    def of_region(self, region: str) -> Cloud:
        return self.at(self.endpoint(region))

    def endpoint(self, region: str) -> str:
        return region if region in self.endpoints else self.endpoints[0]
