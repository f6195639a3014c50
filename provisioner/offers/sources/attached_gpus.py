"""Google's price list has GPUs apart from their hosts: rows with a GPU and no machine type.

What can be bought is a host with its GPUs, at the price of both. Accelerator-optimised hosts (A2,
A3, A4, G2, G4) come with one GPU model and count and are sold with nothing else; the other models
are attached to N1 hosts, which are then called `n1-standard-8+1xT4`.
Source: cloud.google.com/compute/docs/gpus.
"""

from __future__ import annotations

import re
from typing import Any

_FIXED = re.compile(r"a2-(?:high|ultra|mega)gpu-(\d+)g|a[34]-\w+gpu-(\d+)g|[ag][24]-standard-(\d+)")
_OF_FAMILY = {
    "a2-highgpu": "A100",
    "a2-megagpu": "A100",
    "a2-ultragpu": "A100-80GB",
    "a3-highgpu": "H100",
    "a3-megagpu": "H100-MEGA",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
}
_G2 = {4: 1, 8: 1, 12: 1, 16: 1, 32: 1, 24: 2, 48: 4, 96: 8}
"""GPUs (L4) of the `g2-standard` types by their vCPUs."""
_G4 = {48: 1, 96: 2, 192: 4, 384: 8}
_CPUS_A_GPU = (4, 24)
"""Of an N1 host: fewer starve a GPU, and more are not sold with one."""
_KEYS = ["Region", "AvailabilityZone"]


def attach(frame: Any) -> Any:
    """The frame with hosts and GPUs joined; it is given back as it is where nothing is apart."""
    import pandas as pd

    if "AvailabilityZone" not in frame:
        return frame
    alone = frame["InstanceType"].isna() & frame["AcceleratorName"].notna()
    if not alone.any():
        return frame
    gpus = frame[alone]
    rest = frame[~alone]
    own = rest["InstanceType"].astype(str).map(_own_gpus)
    hosts = rest[own.notna()].copy()
    hosts["_model"] = [found[0] for found in own.dropna()]
    hosts["_count"] = [float(found[1]) for found in own.dropna()]
    fixed = hosts.drop(columns=["AcceleratorName", "AcceleratorCount"]).merge(
        gpus[[*_KEYS, "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice"]],
        left_on=[*_KEYS, "_model", "_count"],
        right_on=[*_KEYS, "AcceleratorName", "AcceleratorCount"],
        suffixes=("", "_gpu"),
    )
    n1 = rest[rest["InstanceType"].astype(str).str.match(r"n1-(?:standard|highmem)-")]
    free = gpus[~gpus["AcceleratorName"].isin([*_OF_FAMILY.values(), "L4"])]
    attached = n1.drop(columns=["AcceleratorName", "AcceleratorCount"]).merge(
        free[[*_KEYS, "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice"]],
        on=_KEYS,
        suffixes=("", "_gpu"),
    )
    each = attached["vCPUs"] / attached["AcceleratorCount"]
    attached = attached[(each >= _CPUS_A_GPU[0]) & (each <= _CPUS_A_GPU[1])].copy()
    attached["InstanceType"] = (
        attached["InstanceType"].astype(str)
        + "+"
        + attached["AcceleratorCount"].astype(int).astype(str)
        + "x"
        + attached["AcceleratorName"].astype(str)
    )
    joined = pd.concat([fixed, attached], ignore_index=True)
    for price in ("Price", "SpotPrice"):
        joined[price] = (joined[price] + joined[f"{price}_gpu"]).round(6)
    whole = pd.concat([rest[own.isna()], joined[rest.columns]], ignore_index=True)
    for name in ("InstanceType", "AcceleratorName", *_KEYS):
        whole[name] = whole[name].astype("category")
    return whole


def _own_gpus(instance_type: str) -> tuple[str, int] | None:
    """The GPUs that a type comes with, where it is one of those."""
    found = _FIXED.fullmatch(instance_type)
    if found is None:
        return None
    family, _, _ = instance_type.rpartition("-")
    size = int(found[1] or found[2] or found[3])
    if family == "g2-standard":
        return ("L4", _G2[size]) if size in _G2 else None
    if family == "g4-standard":
        return ("RTX PRO 6000", _G4[size]) if size in _G4 else None
    return (_OF_FAMILY[family], size) if family in _OF_FAMILY else None
