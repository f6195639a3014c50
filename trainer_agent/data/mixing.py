"""Hashing of integers by SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).

The only source of order and variation in the data: the same on every machine and in every version,
since it is arithmetic modulo 2**64 and nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB


def key(*words: int) -> int:
    """One 64-bit key from several integers, order counting."""
    mixed = 0
    for word in words:
        mixed = (mixed + _GOLDEN + (word & _MASK)) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * _M1) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * _M2) & _MASK
        mixed ^= mixed >> 31
    return mixed


def mix(words: Words, by: int) -> Words:
    """A hash of each word under the key `by`; one-dimensional, wraps modulo 2**64."""
    mixed = words + np.uint64(by)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_M1)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_M2)
    return mixed ^ (mixed >> np.uint64(31))
