from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_agent.launch.folder import Stop, TaskFolder
from trainer_agent.launch.spec import TaskSpec
from trainer_agent.launch.start import start_shim


def wait_until(condition: Callable[[], Any], limit_s: float = 15.0) -> Any:
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("never happened")


@pytest.fixture
def shims() -> Iterator[list[subprocess.Popen[bytes]]]:
    shims: list[subprocess.Popen[bytes]] = []
    yield shims
    for shim in shims:
        shim.kill()
        shim.wait()


def asked(path: Path, text: str, **fields: Any) -> TaskFolder:
    folder = TaskFolder(path / "att_1")
    argv = (sys.executable, "-c", text)
    folder.ask(TaskSpec(id="att_1", job_id="job_1", attempt=1, argv=argv, **fields))
    return folder


def test_a_task_started_twice_runs_once(
    tmp_path: Path, shims: list[subprocess.Popen[bytes]]
) -> None:
    folder = asked(tmp_path, "print('ran', flush=True)")
    shims += [start_shim(folder) for _ in range(4)]
    end = wait_until(folder.exit)
    assert [shim.wait(10) for shim in shims] == [0, 0, 0, 0]
    assert end.exit_code == 0
    assert folder.log.read_text() == "ran\n"
    assert folder.shim_errors.read_text() == ""


def test_a_stop_that_comes_before_the_shim_is_ready_is_not_lost(
    tmp_path: Path, shims: list[subprocess.Popen[bytes]]
) -> None:
    folder = asked(tmp_path, "import time; time.sleep(600)")
    shims.append(start_shim(folder))
    shims[0].send_signal(signal.SIGTERM)
    folder.order_stop(Stop(drain=True, kill_at_s=time.monotonic() + 5.0))
    end = wait_until(folder.exit)
    assert end.drained
    assert (end.exit_code, end.signal) in [(75, None), (None, 15)]


def test_a_task_ordered_to_stop_before_it_began_starts_no_rank(
    tmp_path: Path, shims: list[subprocess.Popen[bytes]]
) -> None:
    folder = asked(tmp_path, "open('/dev/null')")
    folder.order_stop(Stop(drain=True, kill_at_s=time.monotonic()))
    shims.append(start_shim(folder))
    end = wait_until(folder.exit)
    assert (end.exit_code, end.drained, end.ranks) == (75, True, ())
    assert not folder.started()


LOADER = """
import os, signal, subprocess, sys, time
work = "import time; print('up', flush=True); time.sleep(600)"
worker = subprocess.Popen([sys.executable, "-c", work])
def leave(*_):
    time.sleep(0.3)
    print("worker", worker.poll(), flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
signal.pause()
"""


def test_a_stop_reaches_the_rank_and_spares_its_loader_workers(
    tmp_path: Path, shims: list[subprocess.Popen[bytes]]
) -> None:
    folder = asked(tmp_path, LOADER)
    shims.append(start_shim(folder))
    wait_until(lambda: folder.log.exists() and folder.log.read_text().count("\n") == 2)
    folder.order_stop(Stop(drain=False, kill_at_s=time.monotonic() + 10.0))
    shims[0].send_signal(signal.SIGTERM)
    end = wait_until(folder.exit)
    assert (end.exit_code, end.drained) == (75, False)
    assert folder.log.read_text().endswith("worker None\n")


def test_a_shorter_time_replaces_a_longer_one(
    tmp_path: Path, shims: list[subprocess.Popen[bytes]]
) -> None:
    text = (
        "import signal, time\nsignal.signal(15, lambda *_: print('told', flush=True))\n"
        "print('ready', flush=True)\nwhile True: time.sleep(60)"
    )
    folder = asked(tmp_path, text)
    shims.append(start_shim(folder))
    wait_until(lambda: folder.log.exists() and "ready" in folder.log.read_text())
    for grace_s in (600.0, 0.2):
        folder.order_stop(Stop(drain=True, kill_at_s=time.monotonic() + grace_s))
        shims[0].send_signal(signal.SIGTERM)
        wait_until(lambda: "told" in folder.log.read_text())
    end = wait_until(folder.exit)
    assert (end.signal, end.drained) == (9, True)
    assert folder.log.read_text().count("told") == 1


def test_what_a_rank_leaves_behind_ends_with_its_task(
    tmp_path: Path, shims: list[subprocess.Popen[bytes]]
) -> None:
    text = (
        "import subprocess, sys\n"
        "code = 'import time; time.sleep(600)'\n"
        "left = subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
        "print(left.pid)"
    )
    folder = asked(tmp_path, text)
    shims.append(start_shim(folder))
    assert wait_until(folder.exit).exit_code == 0
    left = folder.log.read_text().strip()
    wait_until(lambda: not os.path.exists(f"/proc/{left}"))  # the shim's end reaps it
