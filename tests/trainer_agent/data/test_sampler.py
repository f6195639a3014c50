"""The order of samples: exactly once an epoch, and a function of the position alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_agent.data.sampler import Sampler, permuted

PINNED = [2, 4, 1, 0, 3, 9, 7, 6, 8, 5]


@given(size=st.integers(1, 700), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 10**6))
def test_an_epoch_is_a_permutation(size: int, seed: int, epoch: int) -> None:
    order = permuted(np.arange(size), size, seed, epoch)
    assert sorted(order.tolist()) == list(range(size))


@given(
    size=st.integers(1, 60),
    epochs=st.integers(1, 4),
    cuts=st.lists(st.integers(1, 50), min_size=1, max_size=40),
)
def test_the_stream_is_the_same_however_it_is_cut(size: int, epochs: int, cuts: list[int]) -> None:
    sampler = Sampler(size, 7, epochs)
    whole, _ = sampler.draw(0, sampler.length + 5)
    pieces, position = [], 0
    for count in [*cuts, sampler.length]:
        piece, _ = sampler.draw(position, count)
        pieces.append(piece)
        position += len(piece)
    assert np.concatenate(pieces).tolist() == whole.tolist()
    assert len(whole) == size * epochs


def test_a_batch_over_the_boundary_takes_from_both_epochs() -> None:
    sampler = Sampler(10, 3, 2)
    indices, epochs = sampler.draw(8, 4)
    assert epochs.tolist() == [0, 0, 1, 1]
    first, _ = sampler.draw(0, 8)
    assert sorted([*first.tolist(), *indices[:2].tolist()]) == list(range(10))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(permuted(np.arange(50), 50, seed, epoch).tolist())
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(orders) == 25


def test_the_order_is_pinned() -> None:
    """A changed algorithm would silently change what a resumed training sees."""
    assert permuted(np.arange(10), 10, 0, 0).tolist() == PINNED


def test_every_place_is_equally_likely() -> None:
    size, draws = 16, 4000
    counts = np.zeros((size, size))
    for epoch in range(draws):
        counts[np.arange(size), permuted(np.arange(size), size, 1, epoch)] += 1
    expected = draws / size
    chi2 = ((counts - expected) ** 2 / expected).sum()
    freedom = (size - 1) ** 2
    assert abs(chi2 - freedom) < 5 * (2 * freedom) ** 0.5


def test_seeking_far_costs_nothing_and_is_right() -> None:
    sampler = Sampler(5000, 1, 100_000)
    far, epochs = sampler.draw(5000 * 99_999 + 17, 3)
    assert epochs.tolist() == [99_999] * 3
    assert far.tolist() == permuted(np.array([17, 18, 19]), 5000, 1, 99_999).tolist()


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        Sampler(0, 0, 1)
