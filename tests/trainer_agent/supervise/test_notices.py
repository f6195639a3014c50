from __future__ import annotations

import time
from datetime import timedelta

from tests.trainer_agent.supervise.control_plane import ControlPlane, wait_until
from tests.trainer_agent.supervise.machine import Machine, task
from trainer_agent.clock import SystemClock

LEAVES = """
import json, os, signal, sys, time
def leave(*_):
    print("told", time.monotonic(), flush=True)
    with open(os.environ["ROOST_PROGRESS"], "a") as progress:
        progress.write(json.dumps({"event": "left", "step": 12}) + "\\n")
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


LATEST_S = 1.0
"""The agent looks every 0.2 s; the rest is for a machine that has other things to do."""


def told_at(log: str) -> float:
    return float(log.split("told ")[1])


def test_a_reclaim_notice_drains_at_once(control: ControlPlane, machine: Machine) -> None:
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    agent = machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    control.extra = {"heartbeat_s": 30.0}
    seen = len(control.heartbeats)
    wait_until(lambda: len(control.heartbeats) > seen, "the last heartbeat for a long time")
    deadline = SystemClock().now() + timedelta(seconds=30)
    written = time.monotonic()
    machine.reclaim(f'{{"action": "terminate", "time": "{deadline.isoformat()}"}}')
    done = wait_until(lambda: control.exited("att_1"), "it leaves")
    assert (done["exit_code"], done["drained"], done["checkpoint_step"]) == (75, True, 12)
    wait_until(lambda: "told" in control.log("att_1"), "its last words")
    assert told_at(control.log("att_1")) - written < LATEST_S
    noticed = next(index for index, beat in enumerate(control.heartbeats) if beat["notices"])
    assert control.heard_at[noticed] - written < LATEST_S
    assert control.heartbeats[-1]["notices"] == [
        {"kind": "reclaim", "deadline": deadline.isoformat(), "source": "metadata"}
    ]
    assert agent.poll() is None


def test_nothing_new_starts_on_a_machine_that_goes(control: ControlPlane, machine: Machine) -> None:
    machine.reclaim()
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    machine.start()
    wait_until(lambda: len(control.heartbeats) > 3, "heartbeats")
    assert control.heartbeats[0]["notices"]
    assert control.task("att_1") is None


def test_a_notice_breaks_the_wait_for_a_control_plane_that_is_away(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    asked: list[str] = []

    def later(path: str) -> tuple[int, dict[str, str]]:
        asked.append(path)
        return 503, {"Retry-After": "200"}

    control.status = later
    wait_until(lambda: "/v1/agent/heartbeat" in asked, "it is told to wait")
    control.status = lambda path: None
    machine.reclaim()
    wait_until(lambda: control.heartbeats[-1]["notices"], "the notice", limit_s=5.0)


def test_a_half_written_notice_is_a_notice(control: ControlPlane, machine: Machine) -> None:
    machine.start()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    machine.reclaim('{"action": "termi')
    wait_until(lambda: control.heartbeats[-1]["notices"], "the notice")
    assert control.heartbeats[-1]["notices"][0]["deadline"] is None


def test_phase_drain_lets_the_tasks_leave_and_the_agent_stay(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    agent = machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    control.drain_deadline = (SystemClock().now() + timedelta(seconds=20)).isoformat()
    control.phase = "drain"
    done = wait_until(lambda: control.exited("att_1"), "it leaves")
    assert (done["exit_code"], done["drained"]) == (75, True)
    assert agent.poll() is None
    control.phase = "run"
    control.tasks = [task("att_2", "python", machine.script("pass"))]
    assert wait_until(lambda: control.exited("att_2"), "a drained machine works again")


def test_phase_stop_ends_the_agent_when_all_is_told(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    agent = machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    control.phase = "stop"
    assert agent.wait(20) == 0
    done = control.exited("att_1")
    assert done is not None
    assert (done["exit_code"], done["drained"]) == (75, True)
    assert "told" in control.log("att_1")
    assert control.progress["att_1"][-1]["event"] == "left"


def test_sigterm_to_the_agent_is_the_machines_stop(control: ControlPlane, machine: Machine) -> None:
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    agent = machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    agent.terminate()
    assert agent.wait(20) == 0
    done = control.exited("att_1")
    assert done is not None
    assert done["drained"]


def test_sigterm_ends_the_agent_though_nobody_answers(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(LEAVES))]
    agent = machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    with control.away():
        agent.terminate()
        assert agent.wait(20) == 0
        end = machine.folder("att_1").exit()
    assert end is not None
    assert (end.exit_code, end.drained) == (75, True)
