"""Shifts: a function of seed, epoch and sample, and nothing else."""

from __future__ import annotations

import numpy as np
import torch

from trainer_agent.data.augment import shifted, shifts
from trainer_agent.data.sampler import Sampler
from trainer_agent.data.stream import Stream


def test_a_shift_moves_the_image_and_repeats_the_edge() -> None:
    image = torch.arange(9.0).reshape(1, 1, 3, 3)
    down_right = shifted(image, np.array([1]), np.array([1]), 1)
    assert down_right[0, 0].tolist() == [[0, 0, 1], [0, 0, 1], [3, 3, 4]]
    still = shifted(image, np.array([0]), np.array([0]), 1)
    assert torch.equal(still, image)


def test_the_company_in_the_batch_does_not_matter() -> None:
    indices, epochs = np.arange(100), np.full(100, 4)
    rows, columns = shifts(9, indices, epochs, 2)
    for number in (0, 17, 99):
        row, column = shifts(9, indices[number : number + 1], epochs[:1], 2)
        assert (row[0], column[0]) == (rows[number], columns[number])


def test_all_shifts_occur_and_epochs_differ() -> None:
    indices = np.arange(500)
    rows, columns = shifts(0, indices, np.zeros(500, np.int64), 1)
    pairs = {(int(row), int(column)) for row, column in zip(rows, columns, strict=True)}
    assert len(pairs) == 9
    later, _ = shifts(0, indices, np.ones(500, np.int64), 1)
    assert (rows != later).mean() > 0.5


def test_a_batch_is_a_function_of_its_position() -> None:
    images = torch.rand(30, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    stream = Stream(images, torch.arange(30), Sampler(30, 2, 3), 8, 1, torch.device("cpu"))
    assert stream.total_steps == 12
    first, labels = stream.batch(stream.position(5))
    stream.batch(0)
    again, same = stream.batch(40)
    assert torch.equal(first, again)
    assert torch.equal(labels, same)
    assert len(stream.batch(stream.position(11))[1]) == 90 - 11 * 8
