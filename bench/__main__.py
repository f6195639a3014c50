"""`make bench`: every bench beside this file with its defaults, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    failed = []
    for script in sorted(Path(__file__).parent.glob("[!_]*.py")):
        print(f"\n== {script.name}", flush=True)
        command = [sys.executable, "-m", f"bench.{script.stem}"]
        if subprocess.run(command, cwd=script.parents[1], check=False).returncode != 0:
            failed.append(script.name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
