"""When a person last did something on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trainer_agent.clock import Clock
from trainer_agent.supervise.wire import Activity

_TERMINALS = Path("/dev/pts")


class LastInput:
    """Reads two signs: terminals that were typed into, and a file that gateways touch.

    Terminals are looked at only when asked for: on a shared host they are other people's too.
    """

    def __init__(self, state: Path, *, terminals: bool, clock: Clock) -> None:
        self._gateways = state / "activity"
        self._terminals = terminals
        self._clock = clock

    def measure(self) -> Activity:
        newest = max(self._signs(), default=None)
        if newest is None:
            return Activity(last_input_age_s=None)
        return Activity(last_input_age_s=max(0.0, self._clock.now().timestamp() - newest))

    def _signs(self) -> Iterator[float]:
        if self._gateways.exists():
            yield self._gateways.stat().st_mtime
        if self._terminals and _TERMINALS.is_dir():
            for terminal in _TERMINALS.iterdir():
                try:
                    status = terminal.stat()
                except OSError:
                    continue  # closed meanwhile
                if terminal.name.isdigit() and status.st_uid == os.getuid():
                    yield status.st_atime  # moves when its input is read
