"""One control plane as its users meet it: on both databases, through a crash, with bad input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.client import Client, ClientProblem
from tests.e2e.plane import ControlPlane, ended_job, wait_until

pytestmark = pytest.mark.e2e

COUNT = """
import json, os, signal, time
path = os.environ["ROOST_PROGRESS"]
with open(path, "a", buffering=1) as out:
    for step in range(1, 41):
        time.sleep(0.05)
        out.write(json.dumps({"event": "step", "step": step, "total_steps": 40}) + "\\n")
print("counted to", step)
"""


@pytest.fixture
def plane(tmp_path: Path, database_url: str) -> Iterator[ControlPlane]:
    """A control plane on a database of either kind."""
    control = ControlPlane(tmp_path, database_url)
    yield control
    control.end()


def test_a_session_with_a_crash_in_the_middle(plane: ControlPlane) -> None:
    client = plane.start()
    client.create_workstation({"name": "desk", "cpus": 1, "memory_gib": 1})
    desk = wait_until(lambda: in_phase(client, "desk", "ready"), "the desk is ready")
    client.submit_job({"name": "count", "argv": ["python", "-c", COUNT], "mode": "on-demand"})
    wait_until(lambda: (client.job("count")["step"] or 0) > 2, "the job has begun")

    plane.kill()
    client = plane.start()

    job = ended_job(client, "count")
    assert (job["state"], job["attempt"]) == ("succeeded", 1), "training did not notice the crash"
    assert job["step"] == 40
    assert client.job_logs("count", None)["text"] == "counted to 40\n"
    after = client.workstation("desk")
    assert after["instance"]["machine_id"] == desk["instance"]["machine_id"]
    said = run(client, "desk", ["sh", "-c", "pwd; echo $HOME"])
    assert said["exit_code"] == 0
    client.delete_workstation("desk")
    wait_until(lambda: not list(client.workstations()), "the desk and its home are gone")
    assert not list(client.instances(live=True))


def test_bad_jobs_fail_with_words_and_lose_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    client = plane.start()
    blocked = tmp_path / "a-file"
    blocked.write_text("not a folder")
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "no-command": ({"argv": ["no-such-command"]}, "'no-such-command' was not found"),
        "no-folder": (recipe(checkpoint_uri=(blocked / "x").as_uri()), "checkpoint folder"),
        "typo": (recipe(config={"epoch": 1}), "Did you mean 'epochs'?"),
        "fails": ({"argv": [sys.executable, "-c", "raise SystemExit(3)"]}, "exit code 3"),
    }
    for name, (body, _) in cases.items():
        client.submit_job({"name": name, **body})
    for name, (_, words) in cases.items():
        job = ended_job(client, name)
        assert job["state"] == "failed", name
        assert words in job["message"], (name, job["message"])
        assert "Traceback" not in job["message"]
    assert blocked.read_text() == "not a folder"
    wait_until(lambda: not list(client.instances(live=True)), "no machine is left")


def test_requests_that_cannot_be_met_are_refused_at_once(plane: ControlPlane) -> None:
    client = plane.start()
    client.set_budget("default", {"amount": "0.01", "currency": "USD"})
    desk, job = {"name": "desk"}, {"name": "job", "argv": ["true"]}
    refused = [
        (lambda: client.create_workstation(desk | {"provider": "nimbus"}), "nimbus", "local"),
        (lambda: client.create_workstation(desk | {"cpus": 999}), "needs.cpus", "roost offers"),
        (lambda: client.create_workstation(desk), "budget has no room", "raise the budget"),
        (
            lambda: client.submit_job(job | {"deadline": "2020-01-01T00:00:00Z"}),
            "in the past",
            "later",
        ),
    ]
    for ask, what, remedy in refused:
        with pytest.raises(ClientProblem) as caught:
            ask()
        assert what in caught.value.message
        assert remedy in (caught.value.remedy or "")
    text = "policy: strict\nversion: 1\nallow:\n  providers: [nimbus]\n"
    client.apply_policy({"text": text, "filename": "strict.yaml"})
    with pytest.raises(ClientProblem, match=r"strict\.yaml:4"):
        client.submit_job(job)
    assert not list(client.jobs())
    assert not list(client.workstations())
    assert client.costs({})["budget_committed"] in ("0", "0.00")


def recipe(**changes: Any) -> dict[str, Any]:
    config = {"data": "digits", "epochs": 1}
    return {"recipe": "image-classification", "config": config} | changes


def in_phase(client: Client, name: str, phase: str) -> dict[str, Any] | None:
    desk = client.workstation(name)
    return desk if desk["phase"] == phase else None


def run(client: Client, name: str, argv: list[str]) -> dict[str, Any]:
    """A command's answer."""
    asked = client.exec(name, {"argv": argv})

    def answered() -> dict[str, Any] | None:
        command = client.command(asked["id"])
        return command if command["state"] != "queued" else None

    return wait_until(answered, f"{argv} is answered")
