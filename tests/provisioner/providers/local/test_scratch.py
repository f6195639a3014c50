"""A /tmp and a /dev/shm of a machine's own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.providers.contract import MachineState
from provisioner.providers.local.machine.scratch import obstacle
from tests.contract.machines import (
    SETTINGS,
    LocalMachines,
    request_for,
    state_of,
    wait_until,
)
from tests.provisioner.providers.local.test_failures import _interpreter_for_nobody, as_nobody

SEES = """
import os, sys
from provisioner.providers.local.machine.scratch import enter
enter(sys.argv[1], 1 << 20)
for folder in ("/tmp", "/dev/shm"):
    open(f"{folder}/mine", "w").write("mine")
    print(*sorted(os.listdir(folder)))
print(os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize)
"""
PROJECT = str(Path(__file__).parents[4])


def test_nothing_of_the_hosts_is_seen_and_nothing_is_left_there() -> None:
    if (reason := obstacle()) is not None:
        assert reason == os.strerror(1)
        return
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            (sys.executable, "-c", SEES, folder),
            capture_output=True,
            text=True,
            env={"PYTHONPATH": PROJECT},
        )
        _check(result, folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_has_them_too() -> None:
    python = _interpreter_for_nobody()
    if python is None:
        pytest.skip("an ordinary user can run no Python >= 3.11 here")
    can = "from provisioner.providers.local.machine.scratch import obstacle; print(obstacle())"
    told = as_nobody(python, "-c", can, PYTHONPATH=PROJECT)
    if told.stdout.strip() != "None":
        assert told.stdout.strip() == os.strerror(1)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        _check(as_nobody(python, "-c", SEES, folder, PYTHONPATH=PROJECT), folder)


def _check(result: subprocess.CompletedProcess[str], folder: str) -> None:
    assert result.stdout.splitlines() == ["mine", "mine", str(1 << 20)], result.stderr
    assert os.listdir(folder) == ["mine"]
    assert not os.path.exists("/dev/shm/mine")


def test_processes_that_see_another_tmp_are_found_and_ended(
    local_machines: LocalMachines,
) -> None:
    provider = local_machines.provider(replace(SETTINGS, private_scratch=True))
    script = "#!/bin/sh\n(setsid sleep 500 &)\nexec sleep 600\n"
    provider.launch(request_for(provider, script=script))
    wait_until(lambda: len(local_machines.strays()) >= 2)
    provider.terminate("one")
    wait_until(lambda: state_of(provider) is MachineState.TERMINATED)
    assert local_machines.strays() == []
