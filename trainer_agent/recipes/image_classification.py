"""Small images into classes with a small convolutional network.

It builds a Training and does not run it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from trainer_agent.data import datasets
from trainer_agent.data.sampler import Sampler
from trainer_agent.data.stream import Stream
from trainer_agent.recipes.strict import COSMETIC, RULE, Between, ConfigError, OneOf, fingerprint
from trainer_agent.train.randomness import make_deterministic
from trainer_agent.train.training import Training

NAME = "image-classification"
EVAL_BATCH = 256
_NO_OPTIMIZERS = {"Optimizer", "LBFGS", "SparseAdam", "Muon"}
OPTIMIZERS = tuple(
    sorted(
        name
        for name, kind in vars(torch.optim).items()
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
        if name not in _NO_OPTIMIZERS
    )
)
"""Those of torch that step from gradients alone, on dense weights of any shape."""


@dataclass(frozen=True, slots=True)
class Config:
    """`width` is the channels of the first layer; `augment` the pixels an image may be shifted by.

    `threads` None takes the checkpoint's number, else OMP_NUM_THREADS, else 1. `eval_every_steps` 0
    evaluates at the end only.
    """

    data: str = field(default="mnist5k", metadata={RULE: OneOf(tuple(datasets.SETS))})
    epochs: int = field(default=12, metadata={RULE: Between(1, 100_000)})
    batch_size: int = field(default=64, metadata={RULE: Between(1, 65_536)})
    width: int = field(default=16, metadata={RULE: Between(1, 1_024)})
    dropout: float = field(default=0.25, metadata={RULE: Between(0.0, 0.9)})
    augment: int = field(default=1, metadata={RULE: Between(0, 4)})
    optimizer: str = field(default="AdamW", metadata={RULE: OneOf(OPTIMIZERS)})
    learning_rate: float = field(default=2e-3, metadata={RULE: Between(0.0, 10.0)})
    schedule: str = field(default="cosine", metadata={RULE: OneOf(("cosine", "constant"))})
    weight_decay: float = field(default=0.01, metadata={RULE: Between(0.0, 1.0)})
    seed: int = field(default=0, metadata={RULE: Between(0, 2**63 - 1)})
    threads: int | None = field(default=None, metadata={RULE: Between(1, 1_024), COSMETIC: True})
    checkpoint_every_steps: int = field(
        default=50, metadata={RULE: Between(1, 10**9), COSMETIC: True}
    )
    keep: int = field(default=2, metadata={RULE: Between(1, 1_000), COSMETIC: True})
    eval_every_steps: int = field(default=0, metadata={RULE: Between(0, 10**9), COSMETIC: True})


class Net(nn.Module):
    """Two convolutions, the second and a third halving the image, and two linear layers.

    Strides instead of pooling: every operation has a deterministic kernel on GPUs too.
    """

    def __init__(self, side: int, classes: int, width: int, dropout: float) -> None:
        super().__init__()
        quarter = math.ceil(math.ceil(side / 2) / 2)
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(4 * width * quarter**2, 8 * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(8 * width, classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(images)
        return logits


def build(config: Config, default_threads: int) -> Training:
    """Everything in its initial state. Raises ConfigError and datasets.DatasetError."""
    images = datasets.load(config.data)
    make_deterministic(config.seed, config.threads or default_threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net(images.train.shape[-1], images.classes, config.width, config.dropout).to(device)
    stream = Stream(
        images=images.train,
        labels=images.train_labels,
        sampler=Sampler(len(images.train), config.seed, config.epochs),
        batch_size=config.batch_size,
        shift_px=config.augment,
        device=device,
    )
    return Training(
        model=net.train(),
        optimizer=_optimizer(config, net),
        loss=nn.functional.cross_entropy,
        learning_rate=_schedule(config, stream.total_steps),
        batches=stream,
        evaluate=lambda stop: accuracy(net, images.test, images.test_labels, device, stop),
        fingerprint=fingerprint(NAME, config),
        checkpoint_every_steps=config.checkpoint_every_steps,
        eval_every_steps=config.eval_every_steps,
        threads_chosen=config.threads is not None,
    )


def accuracy(
    net: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    device: torch.device,
    stop: Callable[[], bool],
) -> float | None:
    """Share of images classified rightly; None as soon as `stop()` says so. Draws nothing."""
    right = 0
    net.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(images), EVAL_BATCH):
                if stop():
                    return None
                guesses = net(images[start : start + EVAL_BATCH].to(device)).argmax(1).cpu()
                right += int((guesses == labels[start : start + EVAL_BATCH]).sum())
    finally:
        net.train()
    return right / len(images)


def _optimizer(config: Config, net: nn.Module) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, config.optimizer)
    settings: dict[str, float] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    accepted = inspect.signature(kind).parameters
    if "weight_decay" not in accepted:
        if config.weight_decay:
            raise ConfigError(f"{config.optimizer} knows no weight_decay: set it to 0.")
        del settings["weight_decay"]
    optimizer: torch.optim.Optimizer = kind(net.parameters(), **settings)
    return optimizer


def _schedule(config: Config, total_steps: int) -> Callable[[int], float]:
    """A pure function of the step: nothing to save, nothing to restore."""
    if config.schedule == "constant":
        return lambda _step: config.learning_rate
    return lambda step: config.learning_rate * (1 + math.cos(math.pi * step / total_steps)) / 2
