"""A training state as bytes and back. Loading never runs code that the bytes bring along."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch

State = Mapping[str, Any]
"""Nested dicts, lists and tuples of tensors, numbers, strings and None."""


class UnreadableStateError(ValueError):
    """The bytes are whole but this torch cannot read them."""


def dump(state: State) -> memoryview:
    """The state in torch's own format, without a second copy of the buffer."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getbuffer()


def load(data: bytes) -> dict[str, Any]:
    """The state on the CPU; UnreadableStateError when it holds anything but plain values."""
    try:
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError) as error:
        raise UnreadableStateError(f"torch {torch.__version__} cannot read it: {error}") from error
    if not isinstance(state, dict):
        raise UnreadableStateError(f"it holds a {type(state).__name__}, not a state")
    return state


def made_with() -> dict[str, str | int]:
    """What decides the last bits of a result on this machine."""
    return {
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def weights_sha256(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names (sorted), dtypes, shapes and raw bytes: equal if and only if bit-equal."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
