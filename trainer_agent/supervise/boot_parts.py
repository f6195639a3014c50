"""How long the parts of a machine's boot took, told once at registration.

The boot script writes the first lines: a word and seconds. It starts the file anew at each boot.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

_FILE = "boot-parts"


class BootParts:
    """The parts of this boot; `state` is the agent's folder."""

    def __init__(self, state: Path) -> None:
        self._file = state / _FILE

    @contextlib.contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time that the block takes, if it ends well."""
        began = time.monotonic()
        yield
        with self._file.open("a") as file:
            file.write(f"{part} {time.monotonic() - began:.3f}\n")

    def read(self) -> dict[str, float]:
        """Seconds by part; a part that was done again counts with its last time."""
        try:
            lines = self._file.read_text().splitlines()
        except OSError:
            return {}
        found: dict[str, float] = {}
        for line in lines:
            part, _, seconds = line.partition(" ")
            with contextlib.suppress(ValueError):
                found[part] = float(seconds)
        return found
