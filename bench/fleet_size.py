"""How a tick grows with the fleet: 1,000, 10,000 and 100,000 machines of the simulated provider.

Half of them are workstations, half run a job each; all of them are at rest, and their agents have
just called in. A tick asks the provider for its listing, writes down what changed, decides for
every workstation and job, and finds nothing to do. Memory is that of the whole process, the
simulated cloud included.

    python -m bench.fleet_size [--sizes 1000 10000 100000]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from policies.world import Needs, Resources
from provisioner.providers.contract import LaunchRequest
from provisioner.store.codec import needs_to_json, offer_to_json
from provisioner.store.engine import Store
from provisioner.store.migrate import upgrade
from provisioner.store.tables import attempt, instance, job, volume, workstation
from tests.provisioner.world import ABLE, ON_DEMAND, SPOT, World, offer

ROUNDS = 3
NEEDS = needs_to_json(Needs(Resources(1, 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(*measure(asked.one))
        return
    print(f"{'machines':>9} {'tick CPU s':>11} {'ms a machine':>13} {'peak MiB':>9} {'queries':>8}")
    for size in asked.sizes:
        command = [sys.executable, "-m", "bench.fleet_size", "--one", str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        cpu_s, mib, queries = map(float, done.stdout.split()[-3:])
        each = cpu_s / size * 1000
        print(f"{size:>9,} {cpu_s:>11.2f} {each:>13.3f} {mib:>9.0f} {queries:>8.0f}", flush=True)


def measure(size: int) -> tuple[float, float, int]:
    """CPU seconds of a quiet tick, peak MiB of the process, statements."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{folder}/roost.db")
        upgrade(store)
        clouds = {"fake": [offer("a", SPOT, "0.10"), offer("a", ON_DEMAND, "0.30")]}
        world = World(store, Path(folder), clouds, able=ABLE, boot_delay_s=0.0)
        fill(world, size)
        tick(world)  # writes down what is new
        asked: list[str] = []
        sa.event.listen(store.engine, "before_cursor_execute", lambda *a: asked.append(a[2]))
        spent = []
        for _ in range(ROUNDS):
            before = time.process_time()
            tick(world)
            spent.append(time.process_time() - before)
        store.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return min(spent), peak, len(asked) // ROUNDS


def tick(world: World) -> None:
    world.clock.set(world.now + timedelta(seconds=1))
    assert world.roost.reconciler.tick()


def fill(world: World, size: int) -> None:
    """Machines at the cloud and their rows, as they are once everything has come up."""
    world.cloud.list()
    with world.store.write() as connection:
        rows_left = _rows(world, size)
        while some := list(islice(rows_left, 500)):
            for table in (volume, workstation, job, attempt, instance):
                rows = [row for each in some if (row := each.get(table)) is not None]
                if rows:
                    connection.execute(table.insert(), rows)


def _rows(world: World, size: int) -> Iterator[dict[sa.Table, dict[str, Any]]]:
    now, admin = world.now, world.admin
    made = {"team_id": admin.team_id, "created_at": now}
    owned = made | {"owner_id": admin.id, "needs": NEEDS, "labels": {}, "attempt": 1}
    desk_offer, job_offer = world.cloud.offers()[1], world.cloud.offers()[0]
    for n in range(size):
        kind, bought = ("workstation", desk_offer) if n % 2 else ("job", job_offer)
        id, launch = f"{kind}-{n}", f"launch-{n}"
        volume_id = f"vol-{n}" if n % 2 else None
        machine = world.cloud.launch(LaunchRequest(launch, bought, "", volume_id=volume_id))
        machine_row = made | {
            "id": f"ins-{n}",
            "owner_kind": kind,
            "owner_id": id,
            "generation": 1,
            "attempt": 1,
            "slot": 0,
            "launch_id": launch,
            "provider": "fake",
            "machine_id": machine.id,
            "offer": offer_to_json(bought),
            "volume_id": volume_id,
            "state": "ready",
            "reason": "agent-ready",
            "state_since": now,
            "ready_at": now,
            "missing_count": 0,
            "agent_seen_at": now,
            "agent": {"telemetry": {"cpu_percent": 50.0}, "tasks": []},
        }
        if volume_id is None:
            running = owned | {"id": id, "name": id, "task": {}, "nodes": 1, "state": "running"}
            running |= {"reason": "running", "queued_at": now, "started_at": now}
            running |= {"max_runtime_s": 1e7, "checkpoint_uri": f"file:///tmp/{id}"}
            tried = {"id": f"att-{n}", "job_id": id, "number": 1, "state": "open"}
            tried |= {"created_at": now, "running_at": now}
            yield {job: running, attempt: tried, instance: machine_row}
            continue
        home = made | {"id": volume_id, "provider": "fake", "gib": 10, "seen": True}
        desk = owned | {"id": id, "name": id, "volume_id": volume_id, "desire": "on"}
        desk |= {"desire_reason": "person", "generation": 1, "started_by_person_at": now}
        yield {
            volume: home | {"deleting": False},
            workstation: desk,
            instance: machine_row,
        }


if __name__ == "__main__":
    main()
