"""Answers that are worth keeping for a while, asked for by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from provisioner.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """What `load` answers for a key, at most `lifetime` old. A failure is not kept."""

    def __init__(self, load: Callable[[K], V], lifetime: timedelta, clock: Clock) -> None:
        self._load = load
        self._lifetime = lifetime
        self._clock = clock
        self._kept: dict[K, tuple[datetime, V]] = {}
        self._locks: dict[K, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            now = self._clock.now()
            kept = self._kept.get(key)
            if kept is not None and now - kept[0] < self._lifetime:
                return kept[1]
            value = self._load(key)
            self._kept[key] = (now, value)
            return value

    def forget(self, key: K) -> None:
        """Ask again next time."""
        self._kept.pop(key, None)
