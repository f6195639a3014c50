"""Nothing of a machine survives its end, whoever ends it and however it tried to get away."""

from __future__ import annotations

import json
import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from provisioner.clock import SystemClock
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.local.provider import LocalProvider
from tests.contract.machines import (
    LocalMachines,
    machine_of,
    request_for,
    running,
    state_of,
    wait_until,
)

S = MachineState

ESCAPEES = """#!/bin/sh
record() { echo $1 > "$ROOST_HOME/$2.part"; mv "$ROOST_HOME/$2.part" "$ROOST_HOME/$2.pid"; }
setsid sleep 611 & record $! session
(setsid sh -c 'echo $$ > "$ROOST_HOME/double.pid"; trap "" TERM HUP; while :; do sleep 0.2; done' &)
(env -i PATH="$PATH" HOME="$ROOST_HOME" setsid sh -c 'echo $$ > $HOME/bare.pid; exec sleep 612' &)
trap '' TERM
record $$ script
while :; do sleep 0.2; done
"""
NAMES = ("session", "double", "bare", "script")


def launch_escapees(machines: LocalMachines, provider: LocalProvider) -> dict[str, int]:
    """Launch a machine full of processes that want to stay; returns their ids."""
    provider.launch(request_for(provider, script=ESCAPEES))
    home = machines.folder("one").path / "disk" / "home"
    files = {name: home / f"{name}.pid" for name in NAMES}
    wait_until(lambda: all(path.exists() and path.read_text().strip() for path in files.values()))
    pids = {name: int(path.read_text()) for name, path in files.items()}
    assert all(running(pid) for pid in pids.values())
    return pids


def init_json(machines: LocalMachines) -> dict[str, dict[str, int]]:
    value: dict[str, dict[str, int]] = json.loads(
        Path(machines.folder("one").file("init.json")).read_text()
    )
    return value


@pytest.mark.parametrize("call", ["stop", "terminate"])
def test_a_call_ends_everything(local_machines: LocalMachines, call: str) -> None:
    provider = local_machines.provider()
    pids = launch_escapees(local_machines, provider)
    getattr(provider, call)("one")
    wait_until(lambda: state_of(provider) in (S.STOPPED, S.TERMINATED))
    assert not any(running(pid) for pid in pids.values())
    disk = local_machines.folder("one").path / "disk"
    if call == "stop":
        assert (disk / "home" / "script.pid").exists()
    else:
        wait_until(lambda: not disk.exists())


@pytest.mark.parametrize("victim", ["init", "keeper"])
def test_killing_one_of_the_two_makes_the_other_end_the_machine(
    local_machines: LocalMachines, victim: str
) -> None:
    provider = local_machines.provider()
    pids = launch_escapees(local_machines, provider)
    before = SystemClock().now()
    os.kill(init_json(local_machines)[victim]["pid"], signal.SIGKILL)
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    machine = machine_of(provider)
    assert machine.end_reason is EndReason.FAILED
    assert victim in machine.message
    assert machine.run_ended_at is not None
    assert before <= machine.run_ended_at <= SystemClock().now()
    assert not any(running(pid) for pid in pids.values())


def test_killing_both_at_once_is_noticed_by_the_next_listing(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    pids = launch_escapees(local_machines, provider)
    processes = init_json(local_machines)
    before = SystemClock().now()
    for who in ("init", "keeper"):  # frozen first, so that neither can react to the other's end
        os.kill(processes[who]["pid"], signal.SIGSTOP)
    for who in ("init", "keeper"):
        os.kill(processes[who]["pid"], signal.SIGKILL)
    wait_until(lambda: not local_machines.folder("one").alive())
    machine = machine_of(provider)
    assert machine.state is S.TERMINATED
    assert machine.end_reason is EndReason.FAILED
    assert machine.run_ended_at is not None
    assert machine.run_ended_at >= before - timedelta(seconds=2)
    assert not any(running(pid) for name, pid in pids.items() if name != "bare")
    os.kill(pids["bare"], signal.SIGKILL)  # no init, no cgroup, no marker: nothing can find it


def test_everything_killed_from_outside_ends_when_it_was_last_seen(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider))
    processes = init_json(local_machines)
    folder = local_machines.folder("one")
    for who in ("init", "keeper"):
        os.kill(processes[who]["pid"], signal.SIGSTOP)
    for pid in [*local_machines.strays(), processes["init"]["pid"], processes["keeper"]["pid"]]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not folder.alive() and not local_machines.strays())
    seen = folder.seen_alive_at()
    assert seen is not None
    machine = machine_of(provider)
    assert machine.state is S.TERMINATED
    assert machine.run_ended_at is not None
    assert machine.run_ended_at.timestamp() == pytest.approx(seen, abs=1e-5)
    assert isinstance(machine.run_ended_at, datetime)


def test_another_machine_is_left_alone(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider, "one"))
    provider.launch(request_for(provider, "two"))
    provider.terminate("one")
    wait_until(lambda: state_of(provider, "one") is S.TERMINATED)
    assert state_of(provider, "two") is S.RUNNING
    assert len(local_machines.strays()) == 1


def test_a_graceful_stop_lets_the_boot_script_and_what_it_left_finish(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    script = """#!/bin/sh
    cd "$ROOST_HOME"
    setsid sh -c 'trap "echo saved > daemon; exit" TERM; touch d; while :; do sleep 0.05; done' &
    while [ ! -e d ]; do sleep 0.05; done
    trap "echo saved > script; exit 0" TERM
    touch ready
    while :; do sleep 0.05; done
    """
    provider.launch(request_for(provider, script=script.replace("\n    ", "\n"), volume_id="v"))
    home = local_machines.root / "volumes" / "v" / "home"
    wait_until((home / "ready").exists)
    provider.stop("one")
    wait_until(lambda: state_of(provider) is S.STOPPED)
    assert (home / "script").read_text() == "saved\n"
    assert (home / "daemon").read_text() == "saved\n"


def test_a_host_that_shuts_down_stops_what_can_start_again(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider))
    os.kill(init_json(local_machines)["init"]["pid"], signal.SIGTERM)
    wait_until(lambda: state_of(provider) is S.STOPPED)
    provider.start("one")
    assert state_of(provider) is S.RUNNING
