"""The result of a finished training: the weights, and the report that says they are whole.

`final.pt` holds the state dict alone and loads with `weights_only=True`; `final.json`, written
after it, holds its SHA-256. It decides nothing about training.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import torch

from trainer_agent.checkpoint import serial
from trainer_agent.checkpoint.errors import from_os_error
from trainer_agent.checkpoint.files import Files

WEIGHTS = "final.pt"
REPORT = "final.json"


@dataclass(frozen=True, slots=True)
class Final:
    """What training ended with. `file_sha256` is of final.pt, `weights_sha256` of the tensors."""

    step: int
    accuracy: float
    weights_sha256: str
    fingerprint: str
    file_sha256: str
    at: str


def export(
    files: Files,
    weights: Mapping[str, torch.Tensor],
    *,
    step: int,
    accuracy: float,
    fingerprint: str,
    at: str,
) -> Final:
    """Write the weights, then the report. Raises CheckpointError when the place refuses them."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    data = serial.dump(plain)
    final = Final(
        step=step,
        accuracy=accuracy,
        weights_sha256=serial.weights_sha256(plain),
        fingerprint=fingerprint,
        file_sha256=hashlib.sha256(data).hexdigest(),
        at=at,
    )
    try:
        files.write(WEIGHTS, data)
        files.write(REPORT, json.dumps(asdict(final), indent=1, sort_keys=True).encode() + b"\n")
    except OSError as error:
        raise from_os_error(error, files.location, "export the final weights") from error
    return final


def read(files: Files) -> Final | None:
    """The result, None when there is none or its weights are not the bytes that were written."""
    try:
        body = json.loads(files.read(REPORT))
        weights = files.read(WEIGHTS)
    except (OSError, ValueError):
        return None
    if not isinstance(body, dict) or body.keys() != {field.name for field in fields(Final)}:
        return None
    final = Final(**body)
    return final if hashlib.sha256(weights).hexdigest() == final.file_sha256 else None
