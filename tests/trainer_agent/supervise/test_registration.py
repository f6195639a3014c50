from __future__ import annotations

import hashlib
import stat

from tests.trainer_agent.supervise.control_plane import BOOTSTRAP_TOKEN, ControlPlane, wait_until
from tests.trainer_agent.supervise.machine import Machine


def test_the_bootstrap_token_is_traded_for_the_machines_own(
    control: ControlPlane, machine: Machine
) -> None:
    machine.start()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    token = (machine.state / "token").read_text()
    said = control.registrations[0]
    assert said["token_sha256"] == hashlib.sha256(token.encode()).hexdigest()
    assert said["facts"]["cpus"] >= 1
    assert said["facts"]["memory_bytes"] > 0
    assert stat.S_IMODE((machine.state / "token").stat().st_mode) == 0o600
    assert not machine.bootstrap_token.exists()
    first = control.heartbeats[0]
    assert first["instance_id"] == "ins_1"
    assert first["boot_id"] == said["boot_id"]
    assert first["telemetry"]["memory_bytes"] > 0
    assert first["telemetry"]["disk_free_bytes"] > 0


def test_a_lost_reply_is_told_again_with_the_same_hash(
    control: ControlPlane, machine: Machine
) -> None:
    lost = [True, True]
    control.drops = lambda path: path.endswith("/register") and bool(lost) and lost.pop()
    machine.start()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    assert len(control.registrations) == 3
    assert len({said["token_sha256"] for said in control.registrations}) == 1


def test_a_later_boot_reuses_the_token(control: ControlPlane, machine: Machine) -> None:
    machine.start()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    agent = machine.agents[0]
    agent.terminate()
    assert agent.wait(10) == 0
    (machine.state / "boot.json").unlink()  # as the bootstrap script does
    machine.bootstrap_token.write_text(BOOTSTRAP_TOKEN)
    before = len(control.heartbeats)
    machine.start()
    wait_until(lambda: len(control.heartbeats) > before, "a heartbeat of the second boot")
    assert len(control.registrations) == 1
    assert control.heartbeats[-1]["boot_id"] != control.heartbeats[0]["boot_id"]
    wait_until(lambda: not machine.bootstrap_token.exists(), "the bootstrap token is removed")


def test_an_agent_restart_is_the_same_boot_and_counts_on(
    control: ControlPlane, machine: Machine
) -> None:
    agent = machine.start()
    wait_until(lambda: len(control.heartbeats) > 2, "heartbeats")
    agent.kill()
    agent.wait()
    before = len(control.heartbeats)
    machine.start()
    wait_until(lambda: len(control.heartbeats) > before, "a heartbeat of the second agent")
    seqs = [beat["seq"] for beat in control.heartbeats]
    assert seqs == sorted(set(seqs))
    assert len({beat["boot_id"] for beat in control.heartbeats}) == 1


def test_a_refused_machine_neither_crashes_nor_hammers(
    control: ControlPlane, machine: Machine
) -> None:
    control.status = lambda path: (401, {})
    agent = machine.start()
    wait_until(lambda: control.paths, "a try")
    wait_until(lambda: "HTTP 401" in machine.console.read_text(), "it says so")
    assert agent.poll() is None
    assert len(control.paths) <= 2
    agent.terminate()
    assert agent.wait(10) == 0


def test_a_second_agent_on_the_same_disk_leaves_it_to_the_first(
    control: ControlPlane, machine: Machine
) -> None:
    machine.start()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    assert machine.start().wait(10) == 75
    assert "another agent runs" in machine.console.read_text()


def test_without_a_bootstrap_token_it_says_what_to_do(machine: Machine) -> None:
    machine.bootstrap_token.unlink()
    assert machine.start().wait(10) == 78
    assert "run the machine's bootstrap script again" in machine.console.read_text()


def test_without_settings_it_names_the_one_that_is_missing(machine: Machine) -> None:
    assert machine.start(ROOST_URL="").wait(10) == 78
    assert "ROOST_URL is not set" in machine.console.read_text()
    assert machine.start(ROOST_URL="ftp://example").wait(10) == 78
    assert "Traceback" not in machine.console.read_text()
