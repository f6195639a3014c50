"""A bell that one thread waits for and others ring."""

from __future__ import annotations

import threading
import time


class Bell:
    """Rings are not counted, but never lost: one that comes before the wait ends it at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rung = False
        self._urgent = False

    def ring(self, *, urgent: bool = False) -> None:
        with self._changed:
            self._rung = True
            self._urgent = self._urgent or urgent
            self._changed.notify_all()

    def wait(self, limit_s: float, *, urgent_only: bool = False) -> None:
        """Return at a ring or after `limit_s`; with `urgent_only` other rings wait till then."""
        end_s = time.monotonic() + limit_s
        with self._changed:
            while not (self._urgent or (self._rung and not urgent_only)):
                rest_s = end_s - time.monotonic()
                if rest_s <= 0:
                    break
                self._changed.wait(rest_s)
            self._rung = self._urgent = False
