"""Spot machines are taken back by their own init, with the notice that was promised."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from policies.world import PurchaseMode
from provisioner.clock import SystemClock
from provisioner.errors import CapacityError, InvalidRequest
from provisioner.providers.contract import EndReason, Machine, MachineState
from provisioner.providers.local.market import MarketSettings, TraceSettings
from tests.contract.machines import (
    SETTINGS,
    LocalMachines,
    machine_of,
    request_for,
    running,
    state_of,
    wait_until,
)

S = MachineState
SPOT = PurchaseMode.SPOT


def replay(tmp_path: Path, *data: int, gap_s: float, notice_s: float) -> MarketSettings:
    """A market that replays the data from a moment ago on."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": gap_s}, "data": data}))
    starts_at = SystemClock().now() - timedelta(milliseconds=100)
    return MarketSettings(notice_s=notice_s, traces=(TraceSettings("local-a", path, starts_at),))


def notice_of(machines: LocalMachines) -> Path:
    return machines.folder("one").path / "metadata" / "spot" / "instance-action"


def assert_reclaimed(machine: Machine, at: datetime) -> None:
    assert machine.state is S.TERMINATED
    assert machine.end_reason is EndReason.RECLAIMED
    assert machine.run_ended_at is not None
    assert at <= machine.run_ended_at < at + timedelta(seconds=2)


def test_a_rehearsal_gives_notice_and_then_takes_everything(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    script = "#!/bin/sh\ntrap '' TERM\nsetsid sleep 601 &\nwhile :; do sleep 0.1; done\n"
    provider.launch(request_for(provider, script=script, mode=SPOT))
    assert not notice_of(local_machines).exists()
    asked = SystemClock().now()
    provider.rehearse_reclaim("one", 1.0)
    wait_until(notice_of(local_machines).exists)
    notice = json.loads(notice_of(local_machines).read_text())
    at = datetime.fromisoformat(notice["time"])
    assert notice["action"] == "terminate"
    assert timedelta(0) <= at - asked - timedelta(seconds=1) < timedelta(seconds=0.5)
    assert state_of(provider) is S.RUNNING
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    assert_reclaimed(machine_of(provider), at)
    assert not local_machines.strays()


def test_a_rehearsal_without_notice_kills_at_once(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    script = "#!/bin/sh\ntrap 'touch $ROOST_METADATA/warned' TERM\nwhile :; do sleep 0.05; done\n"
    provider.launch(request_for(provider, script=script, mode=SPOT))
    asked = SystemClock().now()
    provider.rehearse_reclaim("one", 0.0)
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    assert_reclaimed(machine_of(provider), asked)
    assert not notice_of(local_machines).exists()
    assert not (local_machines.folder("one").path / "metadata" / "warned").exists()


def test_only_a_running_spot_machine_can_be_rehearsed(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider))
    with pytest.raises(InvalidRequest, match="not spot"):
        provider.rehearse_reclaim("one", 1.0)
    provider.launch(request_for(provider, "two", mode=SPOT))
    provider.terminate("two")
    with pytest.raises(InvalidRequest):
        provider.rehearse_reclaim("two", 1.0)
    with pytest.raises(InvalidRequest):
        provider.rehearse_reclaim("two", float("nan"))


def test_the_market_reclaims_while_no_control_plane_runs(
    local_machines: LocalMachines, tmp_path: Path
) -> None:
    market = replay(tmp_path, 1, 0, gap_s=5.0, notice_s=1.5)
    settings = replace(SETTINGS, market=market)
    launcher = """
import pickle, sys
from pathlib import Path
from policies.world import PurchaseMode
from tests.contract.machines import LocalMachines, request_for
settings = pickle.loads(bytes.fromhex(sys.argv[2]))
provider = LocalMachines(Path(sys.argv[1])).provider(settings)
provider.launch(request_for(provider, mode=PurchaseMode.SPOT))
print("launched", flush=True)
sys.stdin.read()
"""
    command = (sys.executable, "-c", launcher, str(local_machines.root))
    with subprocess.Popen(
        (*command, pickle.dumps(settings).hex()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as plane:
        assert plane.stdout is not None
        assert plane.stdout.readline() == "launched\n"
        plane.send_signal(signal.SIGKILL)
    (script,) = local_machines.strays()
    wait_until(notice_of(local_machines).exists)
    at = datetime.fromisoformat(json.loads(notice_of(local_machines).read_text())["time"])
    assert at == market.traces[0].starts_at + timedelta(seconds=5)
    wait_until(lambda: not running(script))
    provider = local_machines.provider(settings)
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    assert_reclaimed(machine_of(provider), at)
    with pytest.raises(CapacityError, match="spot market"):
        provider.launch(request_for(provider, "two", mode=SPOT))
    assert provider.launch(request_for(provider, "three")).state is S.RUNNING


def test_a_trace_with_numbers_sells_that_many(
    local_machines: LocalMachines, tmp_path: Path
) -> None:
    market = replay(tmp_path, 2, 1, gap_s=5.0, notice_s=0.0)
    provider = local_machines.provider(replace(SETTINGS, market=market))
    provider.launch(request_for(provider, "one", mode=SPOT))
    provider.launch(request_for(provider, "two", mode=SPOT))
    with pytest.raises(CapacityError):
        provider.launch(request_for(provider, "three", mode=SPOT))
    wait_until(lambda: state_of(provider, "two") is S.TERMINATED)
    assert machine_of(provider, "two").end_reason is EndReason.RECLAIMED
    assert state_of(provider, "one") is S.RUNNING


def test_a_hazard_reclaims_without_a_trace(local_machines: LocalMachines) -> None:
    market = MarketSettings(mean_hours_between_reclaims=1e-6, notice_s=0)
    provider = local_machines.provider(replace(SETTINGS, market=market))
    provider.launch(request_for(provider, mode=SPOT))
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    assert machine_of(provider).end_reason is EndReason.RECLAIMED
