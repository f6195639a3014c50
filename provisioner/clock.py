"""The clock: the only place that reads the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the rest of the program knows of time."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)


class ManualClock:
    """A clock that stands still until it is moved; for tests and simulation."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def set(self, now: datetime) -> None:
        if now < self._now:
            raise ValueError(f"the clock cannot go back from {self._now} to {now}")
        self._now = now
