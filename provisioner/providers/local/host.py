"""What this host has: cores, memory, GPUs. Reads only."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass

_GPU_QUERY = ("nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader")
_GPU_QUERY_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    uuid: str
    model: str


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
    rows = (line.partition(",") for line in answer.stdout.splitlines() if "," in line)
    return tuple(Gpu(uuid.strip(), name.strip()) for uuid, _, name in rows)
