"""On a machine that systemd runs, the boot script makes itself a service."""

from __future__ import annotations

import os
import stat
import sys

from provisioner.agent_wheel import AgentWheel
from provisioner.bootstrap import Preparation, user_data
from tests.provisioner.bootstrap.guest import Guest
from tests.trainer_agent.supervise.control_plane import (
    BOOTSTRAP_TOKEN,
    INSTANCE,
    ControlPlane,
    wait_until,
)
from tests.trainer_agent.supervise.machine import task

PYTHON = os.path.realpath(sys.executable)
STATE = "/var/lib/roost"
LEAVES = """
import signal, sys, time
def leave(*_):
    print("left")
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
print("ready")
while True:
    time.sleep(60)
"""


def script(control: ControlPlane, wheel: AgentWheel) -> str:
    return user_data(
        url=control.url,
        instance_id=INSTANCE,
        bootstrap_token=BOOTSTRAP_TOKEN,
        wheel_sha256=wheel.sha256,
        wheel_filename=wheel.filename,
        preparation=Preparation(PYTHON),
    )


def next_beat(control: ControlPlane, what: str) -> str:
    """The boot id in the next heartbeat."""
    seen = len(control.heartbeats)
    wait_until(lambda: len(control.heartbeats) > seen, what)
    return str(control.heartbeats[-1]["boot_id"])


def test_a_service_that_outlives_kills_power_cuts_and_shutdowns(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    guest.take(script(control, wheel))
    guest.boot()
    first = next_beat(control, "the first boot's heartbeat")
    wait_until(lambda: not guest.path(f"{STATE}/bootstrap-token").exists(), "the token is removed")

    assert stat.S_IMODE(guest.path(STATE).stat().st_mode) == 0o700
    for name in ("boot", "environment"):
        assert stat.S_IMODE(guest.path(f"{STATE}/{name}").stat().st_mode) == 0o600
    assert BOOTSTRAP_TOKEN not in guest.path(f"{STATE}/boot").read_text()
    assert BOOTSTRAP_TOKEN not in guest.path("/var/log/user-data.log").read_text() + guest.log()
    assert guest.run("systemctl", "is-enabled", "roost-agent").strip() == "enabled"
    unit = "/etc/systemd/system/roost-agent.service"
    assert "roost-agent" not in guest.run("systemd-analyze", "verify", unit, check=False)

    killed = guest.agent()
    guest.run("kill", "-KILL", str(killed))
    wait_until(lambda: guest.agent() not in (0, killed), "systemd starts another agent")
    assert next_beat(control, "its heartbeat") == first, "it is the same boot"

    guest.cut_power()
    guest.boot()
    second = next_beat(control, "a heartbeat after the power cut")
    assert second != first
    wait_until(guest.agent, "the agent runs")
    guest.shut_down()
    guest.boot()
    assert next_beat(control, "a heartbeat after the shutdown") not in (first, second)
    assert len(control.registrations) == 1
    assert control.paths.count("/v1/agent/wheel") == 1


def test_run_again_it_is_the_same_service(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    guest.take(script(control, wheel))
    guest.boot()
    boot = next_beat(control, "a heartbeat")
    before = guest.agent()
    guest.run("/var/lib/cloud/instance/scripts/part-001")
    wait_until(lambda: guest.agent() not in (0, before), "it is started anew")
    assert next_beat(control, "its heartbeat") == boot
    assert len(control.registrations) == 1
    units = guest.run("systemctl", "list-unit-files", "--no-legend", "roost*").splitlines()
    assert len(units) == 1


def test_killed_while_it_waits_for_a_control_plane_that_is_away(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    guest.take(script(control, wheel))
    with control.away():
        guest.boot()
        wait_until(lambda: "trying again" in guest.log(), "it tries to fetch")
        waiting = guest.agent()
        guest.run("kill", "-KILL", str(waiting))
        wait_until(lambda: guest.agent() not in (0, waiting), "systemd starts it again")
        guest.cut_power()
        guest.boot()
        wait_until(lambda: "trying again" in guest.log(), "it tries to fetch after the power cut")
    next_beat(control, "a heartbeat")
    assert len(control.registrations) == 1


def test_the_machines_shutdown_lets_the_tasks_leave(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    guest.take(script(control, wheel))
    control.tasks = [task("att_1", "python", "-u", "-c", LEAVES)]
    guest.boot()
    wait_until(lambda: control.log("att_1") == "ready\n", "the task runs")
    killed = guest.agent()
    guest.run("kill", "-KILL", str(killed))
    wait_until(lambda: guest.agent() not in (0, killed), "systemd starts another agent")
    next_beat(control, "its heartbeat")
    assert control.running("att_1"), "the task outlives its agent"
    guest.shut_down()
    done = control.exited("att_1")
    assert done is not None
    assert (done["exit_code"], done["drained"]) == (75, True)
    assert control.log("att_1") == "ready\nleft\n"
