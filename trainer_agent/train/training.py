"""What a recipe hands to the loop: a model, how to step it, and what to step it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

Tensors = tuple[torch.Tensor, torch.Tensor]


class Batches(Protocol):
    """Batches as a pure function of the position in the stream of samples."""

    @property
    def total_steps(self) -> int: ...

    def position(self, step: int) -> int:
        """Samples consumed by the first `step` batches."""
        ...

    def batch(self, position: int) -> Tensors:
        """Inputs and targets of the batch that starts at `position`."""
        ...


@dataclass(frozen=True, slots=True)
class Training:
    """One training, built and not yet begun.

    `learning_rate(step)` is that of the step after `step` finished ones. `evaluate(stop)` gives the
    test accuracy, or None as soon as `stop()` is true. `fingerprint` identifies all that decides
    the result. `threads_chosen` says that the person asked for this number of threads.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    learning_rate: Callable[[int], float]
    batches: Batches
    evaluate: Callable[[Callable[[], bool]], float | None]
    fingerprint: str
    checkpoint_every_steps: int
    eval_every_steps: int
    threads_chosen: bool
