"""Azure's sizes: what its list of SKUs says of them, and what only their names say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from provisioner.gpus import canonical_gpu
from provisioner.providers.libcloud.cloud import Size

_GPU = re.compile(r"_(A100|H100|H200|GB200|T4|A10|L40S|MI300X|V620)(?=_|$)")
_GPU_BY_FAMILY = (
    (re.compile(r"Standard_NC\d+r?s_v3"), "V100", None),
    (re.compile(r"Standard_ND40r?s_v2"), "V100", 32.0),
    (re.compile(r"Standard_ND96asr_v4"), "A100", 40.0),
    (re.compile(r"Standard_N[CD]\w+_A100_v4"), "A100", 80.0),
)


def size_of(name: str, can: Mapping[str, str], region: str) -> Size:
    gpus = int(can.get("GPUs", "0"))
    return Size(
        name=name,
        cpus=float(can.get("vCPUsAvailable") or can["vCPUs"]),
        memory_gib=float(can["MemoryGB"]),
        zones={region: (region,)},
        gpus=gpus,
        gpu_model=_gpu_model(name) if gpus else None,
        spot=can.get("LowPriorityCapable") == "True",
    )


def _gpu_model(size: str) -> str | None:
    """Only a size's name tells it."""
    for pattern, model, memory_gib in _GPU_BY_FAMILY:
        if pattern.match(size):
            return canonical_gpu(model, memory_gib)
    found = _GPU.search(size)
    return canonical_gpu(found[1]) if found else None


def is_closed(body: Mapping[str, Any]) -> bool:
    """Whether this subscription may not have it in the whole region."""
    return any(one["type"] == "Location" for one in body.get("restrictions") or ())
