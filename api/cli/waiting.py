"""Waiting for something that takes time: ask again, say on stderr what changed, give up in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from api.cli.output import note
from provisioner.errors import RoostError

Json = dict[str, Any]
POLL_S = 0.5


class NotYetError(RoostError):
    """It takes longer than one would wait."""

    code = "not-yet"


def timeout_option(default_s: float) -> Callable[[Any], Any]:
    """Give a command its --timeout, for --wait."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0),
        default=default_s,
        show_default=True,
        help="Seconds to wait at most.",
    )


def wait_for(
    ask: Callable[[], Json],
    done: Callable[[Json], bool],
    describe: Callable[[Json], str],
    timeout_s: float,
) -> Json:
    """Ask until `done`, noting each new `describe`; raises `NotYetError` after `timeout_s`."""
    end = time.monotonic() + timeout_s
    said = None
    while True:
        state = ask()
        line = describe(state)
        if line and line != said:
            note(line)
            said = line
        if done(state):
            return state
        if time.monotonic() >= end:
            raise NotYetError(
                f"After {timeout_s:g} s it is still so: {line}.",
                remedy="It goes on without you; wait longer with --timeout.",
            )
        time.sleep(POLL_S)
