"""On a machine that systemd runs, the boot script makes itself a service."""

from __future__ import annotations

import os
import signal
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

PYTHON = os.path.realpath(sys.executable)
STATE = "/var/lib/roost"


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
    assert guest.run("systemd-analyze", "verify", "roost-agent.service") == ""

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


