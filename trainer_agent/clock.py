"""The machine's clock: the only place in this package that reads the time of day.

Durations are measured by `time.monotonic`, which needs no clock object.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the rest of the package knows of the time of day."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)
