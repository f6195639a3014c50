from __future__ import annotations

import json
import os
import sys

from tests.trainer_agent.supervise.control_plane import ControlPlane, wait_until
from tests.trainer_agent.supervise.machine import Machine, task
from trainer_agent.launch.process import descendants

TELL = """
import json, os, sys
with open(os.environ["ROOST_PROGRESS"], "a") as progress:
    for step in range(1, 201):
        record = {"event": "step", "step": step, "total_steps": 200, "loss": 1 / step, "text": "é"}
        print(json.dumps(record), file=progress, flush=True)
        print(f"step {step} ✓ äöü", flush=True)
    print(json.dumps({"event": "checkpoint", "step": 150}), file=progress)
    print(json.dumps({"event": "done", "step": 200, "weights_sha256": "ab"}), file=progress)
sys.stderr.write("the end, without a newline")
"""
WAIT = """
import signal, sys, time
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def test_a_task_runs_and_all_that_it_says_arrives_once(
    control: ControlPlane, machine: Machine
) -> None:
    every_second = [0]

    def drops(path: str) -> bool:
        every_second[0] += 1
        return every_second[0] % 2 == 0

    control.drops = drops
    control.tasks = [task("att_1", "python", machine.script(TELL))]
    machine.start()
    done = wait_until(lambda: control.exited("att_1"), "the task ends")
    assert (done["exit_code"], done["signal"], done["drained"]) == (0, None, False)
    assert (done["step"], done["total_steps"], done["checkpoint_step"]) == (200, 200, 150)
    log = "".join(f"step {step} ✓ äöü\n" for step in range(1, 201)) + "the end, without a newline"
    wait_until(lambda: control.log("att_1") == log, "the whole log")
    wait_until(lambda: len(control.progress.get("att_1", [])) == 202, "all records")
    steps = [record["step"] for record in control.progress["att_1"]]
    assert steps == [*range(1, 201), 150, 200]
    folder = machine.folder("att_1").path
    assert folder.exists()  # reported as long as it is listed
    control.tasks = []
    wait_until(lambda: not folder.exists(), "the folder is deleted")
    wait_until(lambda: control.task("att_1") is None, "it is no longer reported")
    assert len(control.log("att_1")) == len(log)


def test_an_unlisted_task_is_kept_until_all_was_told(
    control: ControlPlane, machine: Machine
) -> None:
    control.status = lambda path: (503, {}) if path.endswith(("logs", "progress")) else None
    control.tasks = [task("att_1", "python", machine.script("print('last words')"))]
    machine.start()
    wait_until(lambda: control.exited("att_1"), "the task ends")
    control.tasks = []
    seen = len(control.heartbeats)
    wait_until(lambda: len(control.heartbeats) > seen + 5, "heartbeats go on")
    assert machine.folder("att_1").path.exists()
    control.status = lambda path: None
    wait_until(lambda: control.log("att_1") == "last words\n", "the log")
    wait_until(lambda: not machine.folder("att_1").path.exists(), "the folder is deleted")


def test_ranks_see_torchruns_names_and_no_secret(control: ControlPlane, machine: Machine) -> None:
    tell = (
        "import json, os\n"
        "name = os.environ['LOCAL_RANK'] + '.json'\n"
        "json.dump(dict(os.environ), open(name + '.new', 'w'))\n"
        "os.rename(name + '.new', name)\n"
        "print('rank', os.environ['RANK'])"
    )
    fields = {
        "node": 1,
        "nodes": 2,
        "nproc": 2,
        "threads": 3,
        "env": {"COLOUR": "red", "RANK": "9"},
    }
    control.tasks = [task("att_1", "python", machine.script(tell), **fields)]
    machine.start()
    assert wait_until(lambda: control.exited("att_1"), "it ends")["exit_code"] == 0
    token = (machine.state / "token").read_text()
    seen = json.loads((machine.home / "1.json").read_text())
    wanted = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29511",
        "OMP_NUM_THREADS": "3",
        "ROOST_JOB_ID": "job_1",
        "ROOST_ATTEMPT": "1",
        "ROOST_CHECKPOINT_URI": "file:///checkpoints/job_1",
        "ROOST_GRACE_S": "5",
        "ROOST_PROGRESS": str(machine.folder("att_1").progress),
        "COLOUR": "red",
        "ROOST_MACHINE": "marker",
    }
    assert {name: seen.get(name) for name in wanted} == wanted
    private = {"ROOST_STATE_DIR", "ROOST_BOOTSTRAP_TOKEN_FILE", "ROOST_URL"}
    assert not private & seen.keys()
    assert token not in json.dumps(seen)
    wait_until(lambda: "[rank 3] rank 3\n" in control.log("att_1"), "its log with its rank")
    assert "[rank 2] rank 2\n" in control.log("att_1")


def test_a_task_no_longer_wanted_is_stopped_and_forgotten(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("att_1", "python", machine.script(WAIT), grace_s=10.0)]
    machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    shim = machine.folder("att_1").shim()
    assert shim is not None
    control.tasks = []
    wait_until(lambda: not machine.folder("att_1").path.exists(), "it is gone")
    wait_until(lambda: not shim.alive(), "its shim is gone")


def test_what_ignores_sigterm_is_killed_with_all_that_it_started(
    control: ControlPlane, machine: Machine
) -> None:
    stubborn = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""
    control.tasks = [task("att_1", "python", machine.script(stubborn), grace_s=0.3)]
    machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    shim = machine.folder("att_1").shim()
    assert shim is not None
    tree = descendants(shim.pid)
    assert len(tree) == 2
    control.phase = "drain"
    done = wait_until(lambda: control.exited("att_1"), "it ends")
    assert done["signal"] == 9
    assert done["drained"]
    assert "grace" in done["message"]
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in tree), "all are gone")


def test_one_failing_rank_ends_the_others_and_is_named(
    control: ControlPlane, machine: Machine
) -> None:
    text = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(600)"
    control.tasks = [task("att_1", "python", machine.script(text), nproc=3)]
    machine.start()
    done = wait_until(lambda: control.exited("att_1"), "it ends")
    assert done["exit_code"] == 3
    assert "rank 1" in done["message"]


def test_a_command_that_is_not_there_is_127_and_says_what_to_do(
    control: ControlPlane, machine: Machine
) -> None:
    plain = machine.script("no interpreter", "plain")
    control.tasks = [task("att_1", "no-such-program"), task("att_2", plain)]
    machine.start()
    missing = wait_until(lambda: control.exited("att_1"), "it ends")
    assert missing["exit_code"] == 127
    assert "'no-such-program' was not found" in missing["message"]
    assert "install it" in missing["message"]
    wait_until(lambda: "no-such-program" in control.log("att_1"), "the log says it too")
    denied = wait_until(lambda: control.exited("att_2"), "it ends")
    assert denied["exit_code"] == 126
    assert "chmod +x" in denied["message"]


def test_fields_of_a_later_version_are_ignored(control: ControlPlane, machine: Machine) -> None:
    control.extra = {"weather": {"wind": 3}}
    control.tasks = [task("att_1", sys.executable, "-c", "pass", colour="green")]
    control.commands = [{"id": "cmd_1", "argv": ["true"], "timeout_s": 5, "shape": "round"}]
    machine.start()
    assert wait_until(lambda: control.exited("att_1"), "it ends")["exit_code"] == 0
    wait_until(lambda: control.results.get("cmd_1"), "the command's result")


def test_a_reply_without_tasks_stops_nothing(control: ControlPlane, machine: Machine) -> None:
    control.tasks = [task("att_1", "python", machine.script(WAIT))]
    machine.start()
    wait_until(lambda: control.log("att_1") == "ready\n", "it runs")
    control.extra = {"tasks": None}
    wait_until(lambda: "not understood" in machine.console.read_text(), "it says so")
    assert control.running("att_1")
    shim = machine.folder("att_1").shim()
    assert shim is not None
    assert shim.alive()


def test_an_id_that_leads_out_of_the_folder_is_refused(
    control: ControlPlane, machine: Machine
) -> None:
    control.tasks = [task("../../evil", "python", "-c", "pass")]
    machine.start()
    wait_until(lambda: "an id is" in machine.console.read_text(), "it says so")
    assert not (machine.state.parent / "evil").exists()
