from __future__ import annotations

import os
import signal

from tests.trainer_agent.supervise.control_plane import ControlPlane, wait_until
from tests.trainer_agent.supervise.machine import Machine, task
from trainer_agent.launch.process import descendants

UNTIL_TOLD = """
import os, sys, time
count = 0
while not os.path.exists("go"):
    count += 1
    print("line", count, flush=True)
    time.sleep(0.01)
print("end", count, flush=True)
sys.exit(7)
"""


def whole(log: str) -> bool:
    """Whether each line came, once and in order."""
    lines = log.splitlines()
    count = len(lines) - 1
    return lines == [*(f"line {number}" for number in range(1, count + 1)), f"end {count}"]


def test_a_killed_agent_keeps_its_task_and_the_next_one_reports_it(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(UNTIL_TOLD))]
    agent = machine.start()
    wait_until(lambda: "line 5\n" in control.log("att_1"), "it runs")
    shim = machine.folder("att_1").shim()
    agent.kill()
    agent.wait()
    seen = len(control.heartbeats)
    machine.start()
    wait_until(lambda: len(control.heartbeats) > seen, "the next agent speaks")
    assert control.running("att_1")
    assert machine.folder("att_1").shim() == shim
    (machine.home / "go").touch()
    assert wait_until(lambda: control.exited("att_1"), "it ends")["exit_code"] == 7
    wait_until(lambda: "end" in control.log("att_1"), "the whole log")
    assert whole(control.log("att_1"))


def test_what_ended_while_no_agent_ran_is_reported(control: ControlPlane, machine: Machine) -> None:
    control.tasks = [task("att_1", "python", machine.script(UNTIL_TOLD))]
    agent = machine.start()
    wait_until(lambda: "line 5\n" in control.log("att_1"), "it runs")
    agent.kill()
    agent.wait()
    (machine.home / "go").touch()
    wait_until(machine.folder("att_1").exit, "it ends")
    machine.start()
    assert wait_until(lambda: control.exited("att_1"), "the report")["exit_code"] == 7
    wait_until(lambda: "end" in control.log("att_1"), "the whole log")
    assert whole(control.log("att_1"))


def test_an_outage_loses_nothing(control: ControlPlane, machine: Machine) -> None:
    control.tasks = [task("att_1", "python", machine.script(UNTIL_TOLD))]
    machine.start()
    wait_until(lambda: "line 5\n" in control.log("att_1"), "it runs")
    with control.away():
        wait_until(lambda: "not reached" in machine.console.read_text(), "it notices")
        (machine.home / "go").touch()
        wait_until(machine.folder("att_1").exit, "it ends meanwhile")
    assert wait_until(lambda: control.exited("att_1"), "the report")["exit_code"] == 7
    wait_until(lambda: "end" in control.log("att_1"), "the whole log")
    assert whole(control.log("att_1"))
    assert machine.console.read_text().count("not reached") <= 3  # said once, not at each try


def test_a_killed_shim_takes_its_ranks_along_and_is_reported(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(UNTIL_TOLD))]
    machine.start()
    wait_until(lambda: "line 5\n" in control.log("att_1"), "it runs")
    shim = machine.folder("att_1").shim()
    assert shim is not None
    ranks = descendants(shim.pid)
    assert shim.send(signal.SIGKILL)
    done = wait_until(lambda: control.exited("att_1"), "it is reported")
    assert (done["exit_code"], done["signal"]) == (None, None)
    assert "nobody saw it end" in done["message"]
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks), "its ranks end")


def test_the_server_is_given_the_time_that_it_asks_for(
    control: ControlPlane, machine: Machine
) -> None:
    machine.start()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    control.status = lambda path: (503, {"Retry-After": "2"})
    tries = len(control.paths)
    wait_until(lambda: len(control.paths) > tries, "it is told to wait")
    control.status = lambda path: None
    told, seen = control.heard_at[-1], len(control.heartbeats)
    wait_until(lambda: len(control.heartbeats) > seen, "it comes back")
    assert control.heard_at[seen] - told > 1.9


def test_output_that_is_never_taken_does_not_keep_a_task_from_its_end(
    control: ControlPlane, machine: Machine
) -> None:
    control.status = lambda path: (422, {}) if path == "/v1/agent/progress" else None
    write = "import os\nopen(os.environ['ROOST_PROGRESS'], 'w').write('{}\\n')\nprint('done')\n"
    control.tasks = [task("att_1", "python", machine.script(write))]
    machine.start()
    wait_until(lambda: (control.exited("att_1") or {}).get("shipped"), "all is told that can be")
    assert control.log("att_1") == "done\n"
