"""How fast GETs stay while machines are made: p50 and p99 at rest and during launches, as a ratio.

python -m bench.api_while_provisioning [--machines 20] [--seconds 10]
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

from api.client import Client
from api.demo.plane import Plane


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    plane = Plane()
    try:
        plane.start()
        with plane.client() as client:
            rest = measure(client, arguments.seconds)
            maker = threading.Thread(target=make, args=(plane, arguments.machines))
            maker.start()
            busy = measure(client, arguments.seconds)
            maker.join()
            live = sum(1 for _ in client.instances(live=True))
    finally:
        plane.close()
    print(f"GETs at rest:           p50 {rest[0]:6.1f} ms   p99 {rest[1]:6.1f} ms")
    print(f"while {live:3d} machines boot: p50 {busy[0]:6.1f} ms   p99 {busy[1]:6.1f} ms")
    print(f"ratio:                  p50 {busy[0] / rest[0]:6.2f}      p99 {busy[1] / rest[1]:6.2f}")


def make(plane: Plane, machines: int) -> None:
    """Ask for all machines at once."""
    with plane.client() as client:
        for number in range(machines):
            client.create_workstation({"name": f"desk-{number}", "cpus": 1, "memory_gib": 1})


def measure(client: Client, seconds: float) -> tuple[float, float]:
    """p50 and p99 of the lists' answers, in milliseconds."""
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for ask in (client.workstations, client.jobs, lambda: client.instances(live=True)):
            started = time.perf_counter()
            list(ask())
            took.append((time.perf_counter() - started) * 1000)
    cuts = statistics.quantiles(took, n=100)
    return statistics.median(took), cuts[98]


if __name__ == "__main__":
    main()
