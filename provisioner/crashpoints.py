"""The named points of the protocol at which a crash must do no harm.

`reach` does nothing in the product. A test arms a point to end the process there, and then shows
that a restart leaks nothing, doubles nothing and loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    """In the order in which a tick passes them."""

    OBSERVED = "tick.observed"
    MIRRORED = "tick.mirrored"
    DECIDED = "plan.decided"
    RECORDED = "intents.recorded"
    SUBMITTED = "action.submitted"
    RETURNED = "call.returned"
    CLOSED = "result.recorded"


_armed: Callable[[Point, str], None] | None = None


def arm(hook: Callable[[Point, str], None] | None) -> None:
    """Call `hook` with the point and the kind of action (or "") whenever a point is reached."""
    global _armed
    _armed = hook


def reach(point: Point, kind: str = "") -> None:
    if _armed is not None:
        _armed(point, kind)
