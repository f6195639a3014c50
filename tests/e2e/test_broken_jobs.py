"""Jobs that write whatever they like: none hurts its machine, the control plane or the others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.client import Client
from tests.e2e.plane import ControlPlane, ended_job, wait_until

pytestmark = pytest.mark.e2e

WRITE = """
import os, time
with open(os.environ["ROOST_PROGRESS"], "ab", buffering=0) as out:
    out.write({})
    time.sleep(1)
"""
RECORDS = {
    "negative": r"""b'{"event":"step","step":-5,"total_steps":-1}\n'""",
    "huge": r"""b'{"event":"step","step":%d}\n' % 10**22""",
    "no-number": r"""b'{"event":"step","step":true,"loss":NaN}\n'""",
    "long-ago": r"""b'{"event":"step","at":"0001-01-01T00:00:00+14:00"}\n'""",
    "deep": r"""b'{"a":' + b'[' * 900 + b']' * 900 + b'}\n'""",
    "deeper": r"""b'{"a":' + b'[' * 9000 + b']' * 9000 + b'}\n'""",
    "many": r"""b'{}\n' * 50_000""",
    "broken": r"""os.urandom(300_000)""",
}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    control = ControlPlane(tmp_path)
    yield control
    control.end()


def test_progress_of_any_kind_hurts_nobody(plane: ControlPlane) -> None:
    client = plane.start()
    for name, text in RECORDS.items():
        argv = [sys.executable, "-c", WRITE.format(text)]
        client.submit_job({"name": name, "argv": argv})
    for name in RECORDS:
        job = ended_job(client, name)
        assert (job["state"], job["attempt"], job["step"]) == ("succeeded", 1, None), job
    assert "Traceback" not in plane.log.read_text()


def test_an_agent_that_is_killed_costs_neither_the_job_nor_its_log(plane: ControlPlane) -> None:
    client = plane.start()
    count = "import time\nfor i in range(40): print(i, flush=True); time.sleep(0.1)"
    client.submit_job({"name": "count", "argv": [sys.executable, "-c", count]})
    wait_until(lambda: client.job("count")["state"] == "running", "the job runs")
    os.kill(agent_of(client, "count"), signal.SIGKILL)

    job = ended_job(client, "count")
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    wait_until(lambda: client.job_logs("count", None)["text"].endswith("39\n"), "its log is whole")
    assert client.job_logs("count", None)["text"].split() == [str(i) for i in range(40)]


def agent_of(client: Client, job: str) -> int:
    """The process id of the agent on the job's machine."""
    mark = f"ROOST_INSTANCE_ID={client.job(job)['attempts'][0]['instance_id']}".encode()

    def look() -> int | None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                if b"trainer_agent.supervise" in line and mark in (folder / "environ").read_bytes():
                    return int(folder.name)
            except OSError:
                continue  # it ended meanwhile
        return None

    return wait_until(look, "the agent is found")
