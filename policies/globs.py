"""Patterns of names, such as `eu-*`: each `*` stands for any number of characters."""

from __future__ import annotations

import re
from functools import lru_cache


def matches_glob(pattern: str, name: str) -> bool:
    """Whether a name is what a pattern such as `eu-*` says."""
    return _glob(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")))


@lru_cache(maxsize=4096)
def globs_meet(one: str, two: str) -> bool:
    """Whether some name matches both patterns; each `*` stands for any number of characters."""
    reachable = {(0, 0)}
    waiting = [(0, 0)]
    while waiting:
        i, j = waiting.pop()
        a, b = one[i : i + 1], two[j : j + 1]
        steps = []
        if a == "*":
            steps += [(i + 1, j)] + ([(i, j + 1)] if b and b != "*" else [])
        if b == "*":
            steps += [(i, j + 1)] + ([(i + 1, j)] if a and a != "*" else [])
        if a and a == b:
            steps.append((i + 1, j + 1))
        for step in steps:
            if step not in reachable:
                reachable.add(step)
                waiting.append(step)
    return (len(one), len(two)) in reachable
