"""What GPUs are called and what they can do, the same for all clouds."""

from __future__ import annotations


def canonical_gpu(model: str, memory_gib: float | None = None) -> str:
    """The one name of a GPU model, such as `A100-80GB` for `NVIDIA A100 80GB PCIe`."""
    return model.removeprefix("NVIDIA ").strip()
