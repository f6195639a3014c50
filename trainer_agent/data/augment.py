"""Small random shifts of images, each a pure function of seed, epoch and sample.

Not of a random generator's state: so the number of workers, prefetching and resuming cannot matter.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from trainer_agent.data import mixing
from trainer_agent.data.sampler import Index

_STREAM = 0x53484946  # keeps these hashes apart from the order's, whatever the seed


def shifts(seed: int, indices: Index, epochs: Index, reach: int) -> tuple[Index, Index]:
    """Rows and columns to move each sample by, each in -reach..reach."""
    words = mixing.mix(indices.astype(np.uint64), mixing.key(seed, _STREAM))
    words = mixing.mix(words ^ epochs.astype(np.uint64), mixing.key(_STREAM, seed))
    span = np.uint64(2 * reach + 1)
    rows = (words >> np.uint64(32)) % span
    columns = (words & np.uint64(0xFFFFFFFF)) % span
    return rows.astype(np.int64) - reach, columns.astype(np.int64) - reach


def shifted(images: torch.Tensor, rows: Index, columns: Index, reach: int) -> torch.Tensor:
    """Images (n, 1, h, w) moved by that much; the edge is repeated outwards."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (reach,) * 4, mode="replicate")[:, 0]
    down = torch.from_numpy(reach - rows)[:, None] + torch.arange(height)
    right = torch.from_numpy(reach - columns)[:, None] + torch.arange(width)
    which = torch.arange(count)[:, None, None]
    return padded[which, down[:, :, None], right[:, None, :]][:, None]
