"""How a rank may end, as the agent reads it from the exit code (names after sysexits.h)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """0 is complete, 75 may be started again, anything else is a failure."""

    DONE = 0
    CONFIG = 64
    SOFTWARE = 70
    STORE = 74
    LEFT = 75
