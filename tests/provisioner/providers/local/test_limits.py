"""A machine gets no more than it was sold with, or it is not sold."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from policies.world import Resources
from provisioner.errors import InvalidRequest
from provisioner.providers.contract import MachineState
from provisioner.providers.local.host import Host
from provisioner.providers.local.launcher import interpreter
from provisioner.providers.local.limits import LimitsUnavailableError, find_limits
from tests.contract.machines import (
    SETTINGS,
    LocalMachines,
    machine_of,
    offer_of,
    request_for,
    state_of,
    wait_until,
)

S = MachineState
ENFORCED = replace(SETTINGS, limits="enforce")

HUNGRY = """#!/bin/sh
cat /proc/self/cgroup > "$ROOST_HOME/groups"
"{python}" -c 'held = b"x" * (1300 << 20)'
echo $? > "$ROOST_HOME/exit"
exec sleep 600
"""


@pytest.fixture
def _limits() -> None:
    try:
        find_limits()
    except LimitsUnavailableError as error:
        pytest.skip(f"this host enforces no limits: {error}")


def groups_of(run: str) -> list[str]:
    return [str(path) for path in Path("/sys/fs/cgroup").rglob(f"*{run}*") if path.is_dir()]


@pytest.mark.usefixtures("_limits")
def test_who_takes_more_memory_than_sold_is_killed(
    local_machines: LocalMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "provisioner.providers.local.fleet.this_host", lambda: Host(1, (1 << 30) + 1)
    )
    provider = local_machines.provider(ENFORCED)
    offer = offer_of(provider)
    assert offer.resources == Resources(1, 1)
    script = HUNGRY.format(python=SETTINGS.python)
    provider.launch(request_for(provider, "hungry", script=script, offer=offer))
    home = local_machines.folder("hungry").path / "disk" / "home"
    wait_until(lambda: (home / "exit").exists() and (home / "exit").read_text())
    assert (home / "exit").read_text() == "137\n"
    assert state_of(provider, "hungry") is S.RUNNING
    assert "hungry" in (home / "groups").read_text()


@pytest.mark.usefixtures("_limits")
def test_cpus_are_limited_and_no_group_is_left(local_machines: LocalMachines) -> None:
    provider = local_machines.provider(ENFORCED)
    provider.launch(request_for(provider, "grouped"))
    groups = groups_of("grouped-1")
    if not groups:
        pytest.skip("limits come from systemd, which keeps its groups itself")
    quotas = [
        Path(group, name).read_text().split()[0]
        for group in groups
        for name in ("cpu.cfs_quota_us", "cpu.max")
        if Path(group, name).exists()
    ]
    assert quotas == ["100000"]
    (pid,) = local_machines.strays()
    for group in groups:
        assert str(pid) in Path(group, "cgroup.procs").read_text().split()
    provider.stop("grouped")
    wait_until(lambda: state_of(provider, "grouped") is S.STOPPED)
    assert groups_of("grouped") == []
    provider.start("grouped")
    assert groups_of("grouped-2")
    provider.terminate("grouped")
    wait_until(lambda: state_of(provider, "grouped") is S.TERMINATED)
    assert groups_of("grouped") == []


@pytest.mark.usefixtures("_limits")
def test_a_killed_machine_leaves_no_group_and_no_process_without_environment(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider(ENFORCED)
    bare = "env -i PATH=$PATH setsid sleep 613 & echo $! > $ROOST_HOME/pid"
    script = f"#!/bin/sh\n{bare}\nexec sleep 600\n"
    provider.launch(request_for(provider, "grouped", script=script))
    folder = local_machines.folder("grouped")
    path = folder.path / "disk" / "home" / "pid"
    wait_until(lambda: path.exists() and path.read_text().strip())
    pid = int(path.read_text())
    processes = json.loads(Path(folder.file("init.json")).read_text())
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for who in ("init", "keeper"):
            os.kill(processes[who]["pid"], number)
    wait_until(lambda: not folder.alive())
    assert machine_of(provider, "grouped").state is S.TERMINATED
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or _zombie(pid))
    assert groups_of("grouped") == []


def _zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_limit_that_cannot_be_enforced_is_refused(
    local_machines: LocalMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> None:
        raise LimitsUnavailableError("no groups here")

    monkeypatch.setattr("provisioner.providers.local.launcher.find_limits", nothing)
    provider = local_machines.provider(ENFORCED)
    with pytest.raises(InvalidRequest, match="no groups here") as caught:
        provider.launch(request_for(provider))
    assert "limits: none" in str(caught.value.remedy)
    assert provider.list().machines == ()
    assert not (local_machines.root / "meter" / "one.jsonl").exists()


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("#!/bin/sh\necho", ("/bin/sh", "/x")),
        ("#!/usr/bin/env python3\n", ("/usr/bin/env", "python3", "/x")),
        ("echo hello", ("/bin/sh", "/x")),
        ("  \n", ()),
    ],
)
def test_a_script_names_its_interpreter(script: str, command: tuple[str, ...]) -> None:
    assert interpreter(script, "/x") == command
