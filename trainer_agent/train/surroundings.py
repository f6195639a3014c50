"""What the launcher tells a rank through the environment. Read once, at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

DEFAULT_GRACE_S = 25.0

N = TypeVar("N", int, float)


class SurroundingsError(ValueError):
    """A variable is missing or makes no sense; the message names it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`threads` is None where the launcher did not say how many."""

    checkpoint_uri: str
    progress: Path | None
    grace_s: float
    threads: int | None
    world_size: int

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Surroundings:
        uri = environ.get("ROOST_CHECKPOINT_URI", "")
        if not uri:
            raise SurroundingsError(
                "ROOST_CHECKPOINT_URI is not set: give the checkpoint folder, as file:///path."
            )
        progress = environ.get("ROOST_PROGRESS")
        return cls(
            checkpoint_uri=uri,
            progress=Path(progress) if progress else None,
            grace_s=_number(environ, "ROOST_GRACE_S", float, DEFAULT_GRACE_S),
            threads=_number(environ, "OMP_NUM_THREADS", int, 0) or None,
            world_size=_number(environ, "WORLD_SIZE", int, 1),
        )


def _number(environ: Mapping[str, str], name: str, kind: type[N], default: N) -> N:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = kind(text)
    except ValueError:
        raise SurroundingsError(f"{name} is {text!r}: it must be a number.") from None
    if not 0 <= value < 1e9:
        raise SurroundingsError(f"{name} is {text!r}: it must be a number of 0 or more.")
    return value
