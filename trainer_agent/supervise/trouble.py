"""The one way in which a step of the boot fails: for now."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_SHOWN = 400


class NotYet(Exception):  # noqa: N818 (a state that may pass)
    """A step of the boot could not be done; the message says what is in the way."""


def run(
    *line: str, limit_s: float, accepted: Sequence[int] = (0,)
) -> subprocess.CompletedProcess[str]:
    """Run a system command without input. Raises `NotYet` with its own words."""
    try:
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        raise NotYet(f"this machine has no {line[0]}; take an image that has it") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotYet(f"{line[0]} did not end well: {error}") from None
    if done.returncode not in accepted:
        words = (done.stderr.strip() or done.stdout.strip())[-_SHOWN:]
        raise NotYet(f"{' '.join(line)} ended with {done.returncode}: {words}")
    return done
