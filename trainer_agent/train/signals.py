"""The notice to leave: SIGTERM sets a flag, and the training looks at it wherever it can stop.

Install it before anything slow is imported, so that a notice in the first seconds counts too. The
handler does nothing else: what must be done happens between steps, in the training's own code.
"""

from __future__ import annotations

import math
import signal
import time
from types import FrameType


class Notice:
    """Given once by the first SIGTERM; from then on `grace_s` seconds are left."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._deadline: float | None = None

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)

    @property
    def given(self) -> bool:
        return self._deadline is not None

    def left_s(self) -> float:
        """Seconds until the machine may be gone; infinite while no notice was given."""
        return math.inf if self._deadline is None else self._deadline - time.monotonic()

    def give(self) -> None:
        """Start the grace period; a second notice does not prolong it."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.give()
