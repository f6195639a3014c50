"""What this host has: cores, memory, GPUs. Reads only."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass

_GPU_QUERY = (
    "nvidia-smi",
    "--query-gpu=uuid,name,memory.used,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader,nounits",
)
_GPU_QUERY_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    uuid: str
    model: str
    used_mib: int = 0
    """Memory in use, by whomever."""
    ecc_errors: int = 0
    """Errors since the driver was loaded that its memory could not correct; 0 without ECC."""


@dataclass(frozen=True, slots=True)
class Host:
    """The hardware that machines are cut from."""

    cpus: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()

    @property
    def memory_gib(self) -> int:
        return max(1, self.memory_bytes >> 30)


def this_host() -> Host:
    """What this process may use: a container's or taskset's share, not the whole board."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(limit, encoding="ascii") as file:
            memory = min(memory, int(file.read()))
    return Host(len(os.sched_getaffinity(0)), memory, _gpus())


def boot_id() -> str:
    """Changes with each boot of the host."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _gpus() -> tuple[Gpu, ...]:
    try:
        answer = subprocess.run(
            _GPU_QUERY, capture_output=True, text=True, timeout=_GPU_QUERY_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()  # no driver, no GPUs to sell
    rows = ([part.strip() for part in line.split(",")] for line in answer.stdout.splitlines())
    return tuple(
        Gpu(row[0], row[1], _number(row[2]), _number(row[3])) for row in rows if len(row) == 4
    )


def _number(text: str) -> int:
    """What a GPU does not count, it calls `[N/A]`."""
    return int(text) if text.isdigit() else 0
