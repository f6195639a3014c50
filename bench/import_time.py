"""How fast the `roost` command starts: `import api.cli` against `import click` alone.

    python -m bench.import_time [--rounds 21]

Both in a fresh interpreter, in turn within each round, in an order that changes; told is the ratio
within the round, less what an interpreter takes that imports nothing.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = {"nothing": "pass", "click": "import click", "api.cli": "import api.cli"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    names = list(PROGRAMS)
    took: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        run(name)  # byte code and file cache
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            took[name].append(run(name))
    print(f"{'import':<10} {'median ms':>10}")
    for name in names:
        print(f"{name:<10} {statistics.median(took[name]) * 1000:>10.1f}")
    ratios = sorted(
        (ours - bare) / (click - bare)
        for bare, click, ours in zip(*(took[name] for name in names), strict=True)
        if click > bare
    )
    median = statistics.median(ratios)
    print(f"api.cli / click: median {median:.2f} (min {ratios[0]:.2f}, max {ratios[-1]:.2f})")


def run(name: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAMS[name]], cwd=ROOT, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
