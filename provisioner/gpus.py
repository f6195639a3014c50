"""What GPUs are called and what they can do, the same for all clouds.

TFLOP/s are the vendors' peaks of 16-bit matrix arithmetic (FP16 or BF16 with FP32 accumulation,
without sparsity), from the data sheets of the models: nvidia.com/en-us/data-center (GB200, B300,
B200, H200, H100, H20, A100, L40S, L4, A10, A30, A40, V100, T4, P100), the RTX architecture white
papers (Turing, Ampere, Ada, Blackwell; of the RTX PRO an eighth of their peak at FP4 with
sparsity), amd.com/en/products/accelerators (MI355X, MI325X, MI300X, MI250X), and for the A10G
aws.amazon.com/ec2/instance-types/g5. Older models (P4, M60, K80) have no such arithmetic: theirs is
the peak of FP32. All this ranks models; what a training run measures counts more, and
`roost offers --throughput` takes that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Gpu:
    """One model: its memory as it is sold (in GB) and its peak of 16-bit arithmetic in TFLOP/s."""

    name: str
    memory_gib: float
    tflops: float


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("GB200", 186, 2500),
        Gpu("B300", 288, 2250),
        Gpu("B200", 180, 2250),
        Gpu("H200", 141, 989),
        Gpu("H100", 80, 989),
        Gpu("H100-MEGA", 80, 989),
        Gpu("H100-NVL", 94, 835),
        Gpu("GH200", 96, 990),
        Gpu("H20", 96, 148),
        Gpu("A100-80GB", 80, 312),
        Gpu("A100", 40, 312),
        Gpu("L40S", 48, 362),
        Gpu("L40", 48, 181),
        Gpu("L4", 24, 121),
        Gpu("A40", 48, 150),
        Gpu("A30", 24, 165),
        Gpu("A10", 24, 125),
        Gpu("A10G", 24, 70),
        Gpu("A6000", 48, 155),
        Gpu("RTX PRO 6000", 96, 503),
        Gpu("RTX PRO 4500", 32, 211),
        Gpu("RTX 6000 ADA", 48, 364),
        Gpu("RTX 6000", 24, 130),
        Gpu("RTX 5090", 32, 210),
        Gpu("RTX 4090", 24, 165),
        Gpu("RTX 3090", 24, 71),
        Gpu("V100-32GB", 32, 125),
        Gpu("V100", 16, 125),
        Gpu("T4", 16, 65),
        Gpu("T4g", 16, 65),
        Gpu("P100", 16, 19),
        Gpu("P4", 8, 5.5),
        Gpu("M60", 8, 4.8),
        Gpu("K80", 12, 4.4),
        Gpu("MI355X", 288, 2516),
        Gpu("MI325X", 256, 1307),
        Gpu("MI300X", 192, 1307),
        Gpu("MI250X", 128, 383),
    )
}
"""By canonical name. A model that is not here can be bought, and not be ranked by its work."""

_NOISE = re.compile(
    r"(?i)nvidia|tesla|geforce|quadro|amd|instinct|radeon|pcie\d*|sxm\d*|hbm\d\w*|oam|server|"
    r"workstation|edition|generation|blackwell|tensor|core|gpu"
)
_MEMORY = re.compile(r"(?i)(\d+)gi?b")
_LARGE = {"A100": (60, "A100-80GB"), "V100": (24, "V100-32GB"), "H100": (90, "H100-NVL")}
"""Models of two sizes: from so many GiB on it is the larger one."""
_ALIASES = {"RTX A6000": "A6000"}
_GLUED = re.compile(r"(?i)(?<=\b[rg]tx)(?=[a-z]?\d|pro)|(?<=pro)(?=\d)")
"""`RTX4090` and `RTXPRO6000` are written apart by some."""
_KNOWN = {name.casefold(): name for name in GPUS}


@lru_cache(maxsize=1024)
def canonical_gpu(model: str, memory_gib: float | None = None) -> str:
    """The one name of a GPU model, such as `A100-80GB` for `NVIDIA A100 80GB PCIe`.

    `memory_gib` tells models of two sizes apart where the name does not. What is no model that is
    known here keeps its own name, without the words that only some clouds add.
    """
    memory, words = memory_gib, []
    for word in re.split(r"[\s_-]+", _GLUED.sub(" ", model.strip())):
        size = _MEMORY.fullmatch(word)
        if size is not None:
            memory = float(size[1])
        elif word and not _NOISE.fullmatch(word):
            words.append(word)
    if not words:
        return model.strip()
    name = (" " if words[0].upper() in ("RTX", "GTX") else "-").join(words)
    name = _ALIASES.get(name.upper(), name)
    name = _KNOWN.get(name.casefold(), name)
    threshold, large = _LARGE.get(name, (0.0, name))
    return large if memory is not None and memory >= threshold > 0 else name
