"""Runs the demo from a clean start to a clean end, whatever happens in between."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from api.demo.plane import Plane
from api.demo.proof import Summary
from api.demo.screen import Screen
from api.demo.story import Story
from provisioner.errors import RoostError


def demo(json_output: bool = False) -> int:
    """Run it; 0 only when everything that it claims held, 130 when it was interrupted."""
    screen = Screen()
    summary = Summary()
    started = time.monotonic()
    interrupted = False
    plane = Plane()
    try:
        with _terminated_as_interrupt():
            screen.title("Roost: a workstation and a spot training job on this machine")
            plane.start()
            Story(plane, screen, summary).tell()
    except KeyboardInterrupt:
        interrupted = True
        summary.error = "interrupted"
    except (RoostError, OSError) as error:
        summary.error = str(error)
    with _deaf():
        screen.say("[dim]cleaning up[/]")
        left = plane.close()
    check = summary.check(
        "nothing is left behind", not left, "no process, no machine" if not left else str(left)
    )
    screen.held(check)
    summary.seconds = round(time.monotonic() - started, 1)
    screen.end(summary)
    if json_output:
        sys.stdout.write(json.dumps(summary.as_json()) + "\n")
    return 130 if interrupted else 0 if summary.ok else 1


@contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with its cleaning up."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _deaf() -> Iterator[None]:
    """A second Ctrl-C must not leave half of the cleaning undone."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _DEAF_TO}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_DEAF_TO = (signal.SIGINT, signal.SIGTERM)
