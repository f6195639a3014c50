"""Batches by position: sampler, images and augmentation put together. It keeps no state."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer_agent.data import augment
from trainer_agent.data.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Stream:
    """`images` (n, 1, h, w) and `labels` (n,) lie on the CPU; batches go to `device`."""

    images: torch.Tensor
    labels: torch.Tensor
    sampler: Sampler
    batch_size: int
    shift_px: int
    device: torch.device

    @property
    def total_steps(self) -> int:
        return -(-self.sampler.length // self.batch_size)

    def position(self, step: int) -> int:
        """Samples consumed by the first `step` batches."""
        return min(step * self.batch_size, self.sampler.length)

    def batch(self, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch that starts there; the very last may be smaller, and one may span epochs."""
        indices, epochs = self.sampler.draw(position, self.batch_size)
        chosen = torch.from_numpy(indices)
        images = self.images[chosen]
        if self.shift_px:
            rows, columns = augment.shifts(self.sampler.seed, indices, epochs, self.shift_px)
            images = augment.shifted(images, rows, columns, self.shift_px)
        return images.to(self.device), self.labels[chosen].to(self.device)
