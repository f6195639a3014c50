"""How long a reclaimed job stands still, and what the whole demo takes in memory.

    python -m bench.reclaim [--runs 1]

Each run is `roost demo`: a job is reclaimed once with notice, once without. Told is the time from
the reclaim to the first step of the next attempt, the steps that were done twice, and the largest
sum of the memory (PSS: shared pages counted once) of the demo, its control plane and its machines.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOOK_EVERY_S = 0.5


@dataclass(slots=True)
class Results:
    """One value a run in each list."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def print(self) -> None:
        print(f"\n{'':<34} {'min':>9} {'median':>9} {'max':>9}")
        for name, seen in self.values.items():
            print(f"{name:<34} {min(seen):>9.2f} {statistics.median(seen):>9.2f} {max(seen):>9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    results = Results()
    for number in range(parser.parse_args().runs):
        print(f"run {number + 1} ...", flush=True)
        told, peak_bytes = demo()
        for interruption in told["interruptions"]:
            how = "with notice" if interruption["notice"] else "without notice"
            results.add(f"resumed {how} (s)", interruption["resume_seconds"])
            results.add(f"steps redone {how}", interruption["steps_redone"])
        results.add("whole demo (s)", told["seconds"])
        results.add("peak memory (MiB, PSS)", peak_bytes / 2**20)
    results.print()


def demo() -> tuple[dict[str, Any], int]:
    """What a demo printed, and its peak memory in bytes."""
    with tempfile.TemporaryDirectory(prefix="bench-reclaim-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "api.cli", "demo", "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"TMPDIR": folder},
        )
        watch = Watch(folder)
        watch.start()
        try:
            printed, _ = process.communicate()
        finally:
            watch.end()
    if process.returncode != 0:
        raise SystemExit(f"the demo failed: {printed}")
    return json.loads(printed), watch.peak_bytes


class Watch(threading.Thread):
    """Looks at the memory of all processes that have `mark` in their environment."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self._mark = mark.encode()
        self._over = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            self.peak_bytes = max(self.peak_bytes, self._sum())
            self._over.wait(max(0.0, LOOK_EVERY_S - (time.monotonic() - began)))

    def end(self) -> None:
        self._over.set()
        self.join()

    def _sum(self) -> int:
        return sum(self._pss(entry) for entry in Path("/proc").glob("[0-9]*"))

    def _pss(self, process: Path) -> int:
        """Bytes; 0 for processes of others, and for those that have just ended."""
        try:
            if self._mark not in (process / "environ").read_bytes():
                return 0
            lines = (process / "smaps_rollup").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
