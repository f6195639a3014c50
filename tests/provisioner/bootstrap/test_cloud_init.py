"""The user data in the hands of cloud-init itself, on a machine that boots by systemd."""

from __future__ import annotations

import json
import shutil

import pytest

from provisioner.agent_wheel import AgentWheel
from tests.provisioner.bootstrap.guest import Guest
from tests.provisioner.bootstrap.test_service import next_beat, script
from tests.trainer_agent.supervise.control_plane import BOOTSTRAP_TOKEN, ControlPlane, wait_until

_STAGES = ("cloud-init-local", "cloud-init", "cloud-config", "cloud-final")
_QUIET = """
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: []
cloud_config_modules: []
cloud_final_modules: [scripts-user]
users: []
"""
"""Of all modules only the one that runs user data: the others would set up this host's twin."""


@pytest.mark.skipif(shutil.which("cloud-init") is None, reason="cloud-init is not installed")
def test_cloud_init_runs_it_once_in_the_life_of_a_machine(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    guest.write("etc/cloud/cloud.cfg.d/99_machine.cfg", _QUIET)
    guest.write("var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-1\n")
    guest.write("var/lib/cloud/seed/nocloud/user-data", script(control, wheel), 0o600)
    guest.enable(*(f"{stage}.service" for stage in _STAGES), by="cloud-init.target")
    guest.boot()
    first = next_beat(control, "a heartbeat")
    wait_until(lambda: guest.path("/var/lib/cloud/data/result.json").exists(), "it has ended")
    result = json.loads(guest.path("/var/lib/cloud/data/result.json").read_text())["v1"]
    assert result["errors"] == []
    assert "NoCloud" in result["datasource"]
    output = guest.path("/var/log/cloud-init-output.log").read_text()
    assert BOOTSTRAP_TOKEN not in output + guest.path("/var/log/cloud-init.log").read_text()
    kept = guest.path("/var/lib/cloud/instances/i-1")
    token = BOOTSTRAP_TOKEN.encode()
    holders = [path for path in kept.rglob("*") if path.is_file() and token in path.read_bytes()]
    assert holders
    assert {path.stat().st_mode & 0o077 for path in holders} == {0}, "root alone reads it"

    guest.cut_power()
    guest.boot()
    assert next_beat(control, "a heartbeat of the second boot") != first
    wait_until(lambda: guest.run("cloud-init", "status").strip() == "status: done", "it is done")
    assert len(control.registrations) == 1
    log = guest.path("/var/log/cloud-init.log").read_text()
    assert log.count("Running command ['/var/lib/cloud/instance/scripts/part-001']") == 1
