"""Machines outlive the control plane, and a control plane can go down at any instant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from policies.world import PurchaseMode
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.local.machine import record
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

ALWAYS = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC))

LAUNCHER = """
import os, signal, sys
from pathlib import Path
from tests.contract.machines import LocalMachines, request_for
provider = LocalMachines(Path(sys.argv[1])).provider()
provider.launch(request_for(provider, sys.argv[2]))
print("launched", flush=True)
sys.stdin.read()
"""


def control_plane(root: Path, launch_id: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-c", LAUNCHER, str(root), launch_id),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "CONTROL_PLANE_SECRET": "s3cret"},
        start_new_session=True,
    )


def test_a_machine_outlives_the_process_that_launched_it(local_machines: LocalMachines) -> None:
    with control_plane(local_machines.root, "one") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "launched\n"
        os.killpg(first.pid, signal.SIGKILL)
    provider = local_machines.provider()
    assert state_of(provider) is S.RUNNING
    (script,) = local_machines.strays()
    assert b"s3cret" not in Path(f"/proc/{script}/environ").read_bytes()
    provider.stop("one")
    wait_until(lambda: state_of(provider) is S.STOPPED)
    assert not running(script)


def test_a_new_provider_object_sees_and_controls_the_same(local_machines: LocalMachines) -> None:
    before = local_machines.provider()
    before.launch(request_for(before, volume_id="v"))
    after = local_machines.provider()
    assert after.list() == before.list()
    after.terminate("one")
    wait_until(lambda: state_of(before) is S.TERMINATED)


def test_many_launches_of_one_id_from_two_processes_make_one_machine(
    local_machines: LocalMachines,
) -> None:
    planes = [control_plane(local_machines.root, "one") for _ in range(2)]
    providers = [local_machines.provider() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        machines = list(pool.map(lambda one: one.launch(request_for(one)), providers))
    for plane in planes:
        with plane:
            assert plane.stdout is not None
            assert plane.stdout.readline() == "launched\n"
            plane.kill()
    assert {machine.id for machine in machines} == {"one"}
    assert len(local_machines.strays()) == 1
    lines = (local_machines.root / "meter" / "one.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["launch", "start"]


def test_a_launch_that_was_cut_off_is_completed_by_the_same_launch(
    local_machines: LocalMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = local_machines.provider()

    class CutOff(BaseException):
        pass

    def crash(*_: object) -> None:
        raise CutOff

    monkeypatch.setattr("provisioner.providers.local.booting.Booting._spawn", crash)
    with pytest.raises(CutOff):
        provider.launch(request_for(provider))
    assert state_of(provider) is S.PENDING
    monkeypatch.undo()
    assert provider.launch(request_for(provider)).state is S.RUNNING
    assert len(local_machines.strays()) == 1


def test_a_launch_that_was_cut_off_can_be_terminated(
    local_machines: LocalMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = local_machines.provider()

    class CutOff(BaseException):
        pass

    def crash(*_: object) -> None:
        raise CutOff

    monkeypatch.setattr("provisioner.providers.local.booting.Booting._spawn", crash)
    with pytest.raises(CutOff):
        provider.launch(request_for(provider))
    monkeypatch.undo()
    provider.terminate("one")
    machine = machine_of(provider)
    assert (machine.state, machine.run_started_at) == (S.TERMINATED, None)
    assert provider.bill(ALWAYS[0], ALWAYS[1]) == {}


def test_an_interpreter_that_cannot_run_is_a_clear_error_and_leaves_nothing(
    local_machines: LocalMachines, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 1\n")
    broken.chmod(0o755)
    for python, cause in ((str(broken), "no such library"), ("/nowhere/python", "cannot be run")):
        provider = local_machines.provider(replace(SETTINGS, python=python))
        with pytest.raises(ProviderError, match=cause) as caught:
            provider.launch(request_for(provider))
        assert caught.value.remedy
        assert provider.list().machines == ()
    assert local_machines.provider().launch(request_for(provider)).state is S.RUNNING


def test_a_reboot_leaves_on_demand_stopped_and_spot_terminated(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider, "one"))
    provider.launch(request_for(provider, "two", mode=PurchaseMode.SPOT))
    for name in ("one", "two"):
        folder = local_machines.folder(name)
        processes = json.loads(Path(folder.file("init.json")).read_text())
        for who in ("init", "keeper"):
            os.kill(processes[who]["pid"], signal.SIGSTOP)
        for who in ("init", "keeper"):
            os.kill(processes[who]["pid"], signal.SIGKILL)
        wait_until(lambda f=folder: not f.alive())  # type: ignore[misc]
        boot = json.loads(Path(folder.file("boot.json")).read_text())
        Path(folder.file("boot.json")).write_text(json.dumps(boot | {"boot_id": "another"}))
    assert state_of(provider, "one") is S.STOPPED
    assert state_of(provider, "two") is S.TERMINATED
    assert machine_of(provider, "two").end_reason is EndReason.FAILED
    provider.start("one")
    assert state_of(provider, "one") is S.RUNNING


def test_home_and_disk_survive_a_stop_and_the_script_runs_at_each_boot(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    script = "#!/bin/sh\necho boot >> $ROOST_HOME/boots; echo boot >> boots; exec sleep 600\n"
    provider.launch(request_for(provider, script=script, volume_id="v"))
    home = local_machines.root / "volumes" / "v" / "home" / "boots"
    disk = local_machines.folder("one").path / "disk" / "boots"
    wait_until(lambda: disk.exists() and disk.read_text() == "boot\n")
    provider.stop("one")
    wait_until(lambda: state_of(provider) is S.STOPPED)
    provider.start("one")
    wait_until(lambda: disk.read_text() == "boot\nboot\n")
    provider.terminate("one")
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    wait_until(lambda: not disk.exists())
    assert home.read_text() == "boot\nboot\n"


def test_a_boot_script_that_fails_is_told_and_the_machine_goes_on(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider, script="#!/bin/sh\necho no wheel here >&2\nexit 3\n"))
    wait_until(lambda: machine_of(provider).message)
    machine = machine_of(provider)
    assert machine.state is S.RUNNING
    assert machine.message == "its boot script ended with 3: no wheel here"


def test_the_console_is_bounded(local_machines: LocalMachines) -> None:
    provider = local_machines.provider(replace(SETTINGS, console_bytes=100_000))
    flood = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end of it"
    provider.launch(request_for(provider, script=f"#!/bin/sh\n{flood}\nexec sleep 600\n"))
    console = Path(local_machines.folder("one").file("console.log"))
    wait_until(lambda: console.exists() and console.read_text().endswith("end of it\n"))
    old = Path(local_machines.folder("one").file("console.log.old"))
    assert 3_000 < console.stat().st_size + old.stat().st_size <= 100_000


def test_a_tombstone_disappears_but_its_id_is_never_used_again(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider(replace(SETTINGS, ended_visible_s=0.0))
    provider.launch(request_for(provider))
    provider.terminate("one")
    wait_until(lambda: state_of(provider) is None)
    wait_until(lambda: provider.list() and not local_machines.folder("one").path.exists())
    again = provider.launch(request_for(provider))
    assert again.state is S.TERMINATED
    assert again.run_ended_at is not None
    with pytest.raises(InvalidRequest):
        provider.launch(request_for(provider, script="#!/bin/sh\n"))
    assert provider.list().machines == ()


def test_a_damaged_record_is_an_error_that_names_the_file(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider))
    state = Path(local_machines.folder("one").file("state.json"))
    content = state.read_text()
    state.write_text("{")
    with pytest.raises(ProviderError, match=r"state\.json"):
        provider.list()
    state.write_text(content)


def test_a_torn_line_of_the_meter_does_not_spoil_the_bill(local_machines: LocalMachines) -> None:
    provider = local_machines.provider()
    provider.launch(request_for(provider))
    meter = local_machines.root / "meter" / "one.jsonl"
    with meter.open("a") as file:
        file.write('{"event": "en')
    provider.terminate("one")
    wait_until(lambda: state_of(provider) is S.TERMINATED)
    start, end = record.metered(str(local_machines.folder("one").path), 1)
    assert start is not None
    assert end is not None


def test_a_machine_runs_on_the_standard_library_alone() -> None:
    show = (
        f"import sys; sys.path.append({os.getcwd()!r});"
        " import provisioner.providers.local.machine.keeper;"
        " print(*(name for name in sys.modules if 'policies' in name or 'provisioner' in name"
        " or 'dataclasses' in name or 'pathlib' in name))"
    )
    run = (sys.executable, "-I", "-S", "-c", show)
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    machine = "provisioner.providers.local.machine"
    above = {"provisioner", "provisioner.clock", "provisioner.providers"}
    assert {name for name in loaded if not name.startswith(machine)} <= above | {
        "provisioner.providers.local"
    }
