"""SIGKILL at each point of a save: a real process dies there, and the next one reads what is left.

One child imports torch and forks a grandchild a case; the grandchild kills itself at the point.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_agent.checkpoint.store import CheckpointStore, Skipped

Open = Callable[..., CheckpointStore]
Save = Callable[..., str]

POINTS = (
    "claimed",
    "state.pt:half-written",
    "state.pt:written",
    "state.pt:synced",
    "state.pt:renamed",
    "manifest.json:half-written",
    "manifest.json:written",
    "manifest.json:synced",
    "manifest.json:renamed",
    "verified",
    "deleting",
)
COMPLETE = POINTS[POINTS.index("manifest.json:renamed") :]

CHILD = """
import json, os, signal, sys
import torch
from trainer_agent.checkpoint.store import CheckpointStore
from trainer_agent.clock import SystemClock

def save(store, step):
    state = {"weights": torch.full((500,), float(step))}
    store.save(step, state, position=0, fingerprint="f")

def die_at(wanted):
    def reached(point):
        if point == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
    return reached

ends = {}
for point in json.loads(sys.argv[2]):
    uri = f"file://{sys.argv[1]}/{point}"
    child = os.fork()
    if child == 0:
        store = CheckpointStore(uri, 2, clock=SystemClock())
        store.prepare()
        save(store, 1)
        save(store, 2)
        save(CheckpointStore(uri, 1, clock=SystemClock(), reached=die_at(point)), 3)
        os._exit(0)
    ends[point] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def wreckage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stores, one a point, each left by a process killed there."""
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), json.dumps(POINTS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout) == dict.fromkeys(POINTS, -9)
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_a_good_checkpoint_is_left_and_the_rest_is_cleared(
    wreckage: Path, point: str, save: Save, open_at: Open
) -> None:
    folder = wreckage / point
    store = open_at(folder)
    skipped: list[Skipped] = []
    before = store.load_latest(skipped.append)
    assert before is not None
    assert before.manifest.step == (3 if point in COMPLETE else 2)
    assert skipped == []
    store.prepare()
    for entry in folder.iterdir():
        assert {file.name for file in entry.iterdir()} == {"state.pt", "manifest.json"}
    save(store, 4)
    after = open_at(folder).load_latest()
    assert after is not None
    assert after.manifest.step == 4
