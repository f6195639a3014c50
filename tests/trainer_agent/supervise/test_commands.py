from __future__ import annotations

import json
import os

from tests.trainer_agent.supervise.control_plane import ControlPlane, wait_until
from tests.trainer_agent.supervise.machine import Machine


def command(command_id: str, *argv: str, timeout_s: float = 20.0) -> dict[str, object]:
    return {"id": command_id, "argv": list(argv), "timeout_s": timeout_s}


def test_a_command_runs_once_and_its_result_is_told_until_accepted(
    control: ControlPlane, machine: Machine
) -> None:
    drops = [True, True]
    control.drops = lambda path: "/commands/" in path and bool(drops) and drops.pop()
    text = "echo run >> runs; echo out; echo err >&2; exit 4"
    control.commands = [command("cmd_1", "sh", "-c", text)]
    control.lists_on = True  # as in a reply that was under way when the result was accepted
    machine.start()
    wait_until(lambda: len(control.results.get("cmd_1", [])) == 3, "told again after lost replies")
    result = control.results["cmd_1"][-1]
    assert result == {
        "exit_code": 4,
        "stdout": "out\n",
        "stderr": "err\n",
        "truncated": False,
        "timed_out": False,
        "error": None,
    }
    seen = len(control.heartbeats)
    wait_until(lambda: len(control.heartbeats) > seen + 3, "heartbeats go on")
    assert (machine.home / "runs").read_text() == "run\n"
    control.commands = []
    wait_until(lambda: not list((machine.state / "commands").iterdir()), "its files are deleted")


def test_a_command_cut_off_by_a_restart_is_not_run_again(
    control: ControlPlane, machine: Machine
) -> None:
    control.commands = [command("cmd_1", "sh", "-c", "echo run >> runs; echo $$ > pid; sleep 600")]
    agent = machine.start()
    wait_until(lambda: (machine.home / "pid").exists(), "it runs")
    agent.kill()
    agent.wait()
    machine.start()
    result = wait_until(lambda: control.results.get("cmd_1"), "a result")[0]
    assert result["exit_code"] is None
    assert "restarted" in result["error"]
    assert (machine.home / "runs").read_text() == "run\n"
    os.kill(int((machine.home / "pid").read_text()), 9)


def test_limits_of_time_and_output(control: ControlPlane, machine: Machine) -> None:
    flood = "import sys; sys.stdout.write('x' * 3_000_000)"
    control.commands = [
        command("cmd_1", "sleep", "600", timeout_s=0.3),
        command("cmd_2", "python", "-c", flood),
        command("cmd_3", "no-such-program"),
        command("cmd_4", "sh", "-c", "echo started; sleep 30 >/dev/null 2>&1 &"),
        command("cmd_5", "echo", "fifth"),  # four run at once
    ]
    machine.start()
    wait_until(lambda: len(control.results) == 5, "all results")
    timed_out = control.results["cmd_1"][0]
    assert timed_out["timed_out"]
    assert "time limit" in timed_out["error"]
    large = control.results["cmd_2"][0]
    assert large["truncated"]
    assert len(large["stdout"]) == 256 << 10
    missing = control.results["cmd_3"][0]
    assert missing["exit_code"] == 127
    assert "was not found" in missing["error"]
    assert control.results["cmd_4"][0]["stdout"] == "started\n"


def test_the_token_is_in_no_output_environment_log_or_argument(
    control: ControlPlane, machine: Machine
) -> None:
    leak = f"cat {machine.state}/token; env; cat /proc/$PPID/cmdline"
    control.commands = [command("cmd_1", "sh", "-c", leak)]
    control.tasks = [
        {"id": "att_1", "job_id": "job_1", "attempt": 1, "argv": ["sh", "-c", leak]},
    ]
    machine.start()
    result = wait_until(lambda: control.results.get("cmd_1"), "the result")[0]
    wait_until(lambda: "PPID" in control.log("att_1") or "ROOST_JOB" in control.log("att_1"), "log")
    token = (machine.state / "token").read_text()
    assert control.tokens == {token}
    assert "*" * len(token) in result["stdout"]
    assert "*" * len(token) in control.log("att_1")
    said = json.dumps(result) + control.log("att_1") + machine.console.read_text()
    assert token not in said
    assert token not in " ".join(control.paths)
    assert token not in json.dumps(control.heartbeats)
