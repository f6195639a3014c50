"""The cloud's own time, which tests move so that nothing has to wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from provisioner.clock import SystemClock


class CloudClock:
    """The time of the host and an offset, or a fixed time that only moves when it is told to."""

    def __init__(self) -> None:
        self._fixed: datetime | None = None
        self._offset = timedelta()

    def now(self) -> datetime:
        return self._fixed or SystemClock().now() + self._offset

    def set(self, at: datetime) -> None:
        """Stand still at a time."""
        self._fixed = at

    def run(self) -> None:
        """Go as the host's clock does."""
        self._fixed, self._offset = None, timedelta()

    def advance(self, seconds: float) -> None:
        if self._fixed is not None:
            self._fixed += timedelta(seconds=seconds)
        self._offset += timedelta(seconds=seconds)
