"""The order of samples: a pure function of seed, epoch and position.

The stream is every epoch's permutation after another, so its whole state is one integer: how many
samples were consumed. Seeking costs nothing, at any position. A permutation is a Feistel network
over the smallest even number of bits that holds the size, walked until it lands inside (Black and
Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). It holds no iterator, no random generator
and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer_agent.data import mixing

ROUNDS = 8
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sampler:
    """Draws indices below `size`, each exactly once an epoch, for `epochs` epochs."""

    size: int
    seed: int
    epochs: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.epochs < 1:
            raise ValueError("a sampler needs at least one sample and one epoch")

    @property
    def length(self) -> int:
        """Samples in the whole stream."""
        return self.size * self.epochs

    def draw(self, position: int, count: int) -> tuple[Index, Index]:
        """Indices and their epochs at `position` and on, fewer than `count` only at the end."""
        indices, epochs = [], []
        stop = min(position + count, self.length)
        while position < stop:
            epoch, offset = divmod(position, self.size)
            upto = min(self.size, offset + stop - position)
            indices.append(permuted(np.arange(offset, upto), self.size, self.seed, epoch))
            epochs.append(np.full(upto - offset, epoch, np.int64))
            position += upto - offset
        if not indices:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(indices), np.concatenate(epochs)


def permuted(offsets: Index, size: int, seed: int, epoch: int) -> Index:
    """Where each offset of the epoch lands: a permutation of range(size)."""
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = [mixing.key(seed, epoch, number) for number in range(ROUNDS)]
    words = offsets.astype(np.uint64)
    outside = np.ones(len(words), dtype=bool)
    while outside.any():
        words[outside] = _feistel(words[outside], half_bits, keys)
        outside &= words >= np.uint64(size)
    return words.astype(np.int64)


def _feistel(words: mixing.Words, half_bits: int, keys: list[int]) -> mixing.Words:
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = words >> bits, words & mask
    for by in keys:
        left, right = right, left ^ (mixing.mix(right, by) & mask)
    return (left << bits) | right
