"""`make bench`: every bench with its defaults, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHES = ("import_time.py", "agent_overhead.py", "reclaim.py")


def main() -> None:
    failed = []
    for name in BENCHES:
        print(f"\n== {name}", flush=True)
        script = Path(__file__).with_name(name)
        if subprocess.run([sys.executable, str(script)], check=False).returncode != 0:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
