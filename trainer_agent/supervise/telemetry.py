"""How busy the machine is, from /proc and nvidia-smi, at next to no cost."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from trainer_agent.supervise.wire import Telemetry

_GPU_PERIOD_S = 5.0
_GPU_TIMEOUT_S = 10.0


class Meter:
    """Measures since its last measurement; one thread calls it."""

    def __init__(self, home: Path, gpus: GpuMeter) -> None:
        self._home = home
        self._gpus = gpus
        self._last = _cpu_ticks()

    def measure(self) -> Telemetry:
        return Telemetry(
            cpu_percent=self._cpu_percent(),
            memory_bytes=_memory_used(),
            gpu_percent=self._gpus.percent,
            disk_free_bytes=_disk_free(self._home),
        )

    def _cpu_percent(self) -> float | None:
        now, self._last, before = _cpu_ticks(), _cpu_ticks(), self._last
        if now is None or before is None or now[1] <= before[1]:
            return None
        busy = (now[0] - before[0]) / (now[1] - before[1])
        return round(100.0 * min(max(busy, 0.0), 1.0), 1)


class GpuMeter:
    """The busiest GPU's use, measured beside the heartbeat: nvidia-smi takes its time, or hangs."""

    def __init__(self) -> None:
        self.percent: float | None = None
        self._program = shutil.which("nvidia-smi")

    def start(self) -> None:
        if self._program:
            threading.Thread(target=self._watch, name="gpus", daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_GPU_PERIOD_S):
            used = [_number(line) for line in query_gpus(self._program, "utilization.gpu")]
            self.percent = max((one for one in used if one is not None), default=None)


def facts() -> dict[str, Any]:
    """What the machine is made of, told once at registration."""
    names = query_gpus(shutil.which("nvidia-smi"), "name")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": _memory().get("MemTotal"),
        "gpus": names,
    }


def hostname() -> str:
    return socket.gethostname()


def query_gpus(program: str | None, quantity: str) -> list[str]:
    """One line a GPU; empty without GPUs or driver."""
    if program is None:
        return []
    line = [program, f"--query-gpu={quantity}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=_GPU_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [text.strip() for text in done.stdout.splitlines() if text.strip()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # "[N/A]" of a GPU that does not measure it


def _cpu_ticks() -> tuple[int, int] | None:
    """(busy, all) clock ticks of all processors since boot; proc(5), /proc/stat."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, words)
    except (OSError, ValueError):
        return None
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


def _memory_used() -> int | None:
    memory = _memory()
    if "MemTotal" not in memory or "MemAvailable" not in memory:
        return None
    return memory["MemTotal"] - memory["MemAvailable"]


def _memory() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split(":") for line in lines if line.endswith(" kB"))
    return {name: int(amount.split()[0]) * 1024 for name, amount in pairs}


def _disk_free(path: Path) -> int | None:
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize
