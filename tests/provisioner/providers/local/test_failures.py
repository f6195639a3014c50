"""What the host refuses becomes a provider error with a way out, never a traceback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner.clock import SystemClock
from provisioner.errors import ProviderError
from provisioner.providers.contract import MachineState
from provisioner.providers.local.provider import LocalProvider
from tests.contract.machines import (
    SETTINGS,
    LocalMachines,
    machine_of,
    request_for,
    state_of,
    wait_until,
)

S = MachineState
NOBODY = 65534


def test_a_root_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    provider = LocalProvider(tmp_path / "file" / "root", "test", SystemClock(), SETTINGS)
    for call in (provider.list, lambda: provider.launch(request_for(provider))):
        with pytest.raises(ProviderError, match="Not a directory") as caught:
            call()
        assert caught.value.remedy


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_a_full_disk(tiny_disk: Path) -> None:
    machines = LocalMachines(tiny_disk)
    provider = machines.provider()
    provider.launch(request_for(provider, "before"))
    stuffing = tiny_disk / "stuffing"
    fill(stuffing)
    with pytest.raises(ProviderError, match="No space") as caught:
        provider.launch(request_for(provider))
    assert "Free some space" in str(caught.value.remedy)
    assert state_of(provider, "one") is None
    (script,) = machines.strays()
    assert script
    stuffing.unlink()
    assert provider.launch(request_for(provider)).state is S.RUNNING
    machines.end_all()


def test_a_machine_that_fills_the_disk_can_be_terminated(tiny_disk: Path) -> None:
    machines = LocalMachines(tiny_disk)
    provider = machines.provider()
    script = "#!/bin/sh\ncat /dev/zero > stuffing 2> /dev/null\ntouch /dev/null\nexec sleep 600\n"
    provider.launch(request_for(provider, script=script))
    wait_until(lambda: os.statvfs(tiny_disk).f_bavail == 0)

    def terminated() -> bool:
        try:
            provider.terminate("one")
            return machine_of(provider).state is S.TERMINATED
        except ProviderError:  # it asks for space: make some, as its reader would
            (machines.folder("one").path / "disk" / "stuffing").unlink(missing_ok=True)
            return False

    wait_until(terminated)
    machines.end_all()


def _interpreter_for_nobody() -> str | None:
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        if os.path.exists(python) and as_nobody(python, "-c", check).returncode == 0:
            return python
    return None


def as_nobody(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # `env` in between: the program that setpriv itself executes is still looked up as root.
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env")
    return subprocess.run(
        (*drop, *command),
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | environment,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_the_provider_works_for_an_ordinary_user() -> None:
    python = _interpreter_for_nobody()
    if python is None:
        pytest.skip("an ordinary user can run no Python >= 3.11 here")
    project = Path(__file__).parents[4]
    packages = [path for path in sys.path if path.endswith("site-packages")]
    wanted = "local and (p1_a_repeated or p6 or p9) or ends_everything or the_other_end"
    with tempfile.TemporaryDirectory() as base:
        os.chown(base, NOBODY, NOBODY)
        result = as_nobody(
            python,
            *("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c"),
            *(str(project / "pyproject.toml"), f"--basetemp={base}/tests", "-k", wanted),
            str(project / "tests" / "contract"),
            str(Path(__file__).parent / "test_killing.py"),
            PYTHONPATH=os.pathsep.join([str(project), *packages]),
            PYTHONDONTWRITEBYTECODE="1",
        )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_without_groups_is_told_to_set_limits_to_none() -> None:
    python = _interpreter_for_nobody()
    if python is None:
        pytest.skip("an ordinary user can run no Python >= 3.11 here")
    script = """
import sys
from pathlib import Path
from provisioner.clock import SystemClock
from provisioner.errors import InvalidRequest
from provisioner.providers.contract import LaunchRequest
from provisioner.providers.local.provider import LocalProvider
provider = LocalProvider(Path(sys.argv[1]), "test", SystemClock())
try:
    machine = provider.launch(LaunchRequest("one", provider.offers()[0], ""))
    provider.terminate(machine.id)
except InvalidRequest as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as base:
        os.chown(base, NOBODY, NOBODY)
        project = str(Path(__file__).parents[4])
        result = as_nobody(python, "-c", script, base, PYTHONPATH=project)
    assert result.stderr == ""
    assert result.stdout == "" or "set `limits: none`" in result.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_a_root_that_is_not_writable() -> None:
    python = _interpreter_for_nobody()
    if python is None:
        pytest.skip("an ordinary user can run no Python >= 3.11 here")
    script = """
import sys
from pathlib import Path
from provisioner.clock import SystemClock
from provisioner.errors import ProviderError
from provisioner.providers.contract import LaunchRequest
from provisioner.providers.local.provider import LocalProvider
provider = LocalProvider(Path(sys.argv[1]) / "root", "test", SystemClock())
try:
    provider.launch(LaunchRequest("one", provider.offers()[0], ""))
except ProviderError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        result = as_nobody(python, "-c", script, base, PYTHONPATH=str(Path(__file__).parents[4]))
    assert result.stderr == ""
    assert "Permission denied" in result.stdout
    assert "another root folder" in result.stdout
