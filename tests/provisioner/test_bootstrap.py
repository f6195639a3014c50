from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner import tls
from provisioner.agent_wheel import AgentWheel, build_agent_wheel
from provisioner.bootstrap import LIMIT_BYTES, user_data
from provisioner.errors import StateError
from tests.certificates import certificate
from tests.trainer_agent.supervise.control_plane import (
    BOOTSTRAP_TOKEN,
    INSTANCE,
    ControlPlane,
    wait_until,
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> AgentWheel:
    return build_agent_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def control(wheel: AgentWheel) -> Iterator[ControlPlane]:
    control = ControlPlane()
    control.wheel = wheel.path.read_bytes()
    control.open()
    yield control
    control.close()


class Disk:
    """A machine's disk and what boots from it."""

    def __init__(self, folder: Path, script: str) -> None:
        self.state = folder / "machine's disk"  # an awkward name on purpose
        self.console = folder / "console"
        self._script = folder / "user-data"
        self._script.write_text(script)
        self.boots: list[subprocess.Popen[bytes]] = []

    def boot(self) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
        env = kept | {"ROOST_STATE_DIR": str(self.state), "ROOST_PYTHON": sys.executable}
        with self.console.open("ab") as console:
            line = ["sh", str(self._script)]
            boot = subprocess.Popen(
                line, env=env, cwd="/", stdout=console, stderr=console, start_new_session=True
            )
        self.boots.append(boot)
        return boot

    def end(self) -> None:
        for boot in self.boots:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(boot.pid, signal.SIGKILL)
            boot.wait()


def script(
    control: ControlPlane, wheel: AgentWheel, sha256: str | None = None, ca: str | None = None
) -> str:
    return user_data(
        ca=ca,
        url=control.url + "/",
        instance_id=INSTANCE,
        bootstrap_token=BOOTSTRAP_TOKEN,
        wheel_sha256=sha256 or wheel.sha256,
        wheel_filename=wheel.filename,
    )


def test_a_machine_boots_twice_from_one_disk(
    tmp_path: Path, control: ControlPlane, wheel: AgentWheel
) -> None:
    disk = Disk(tmp_path, script(control, wheel))
    first = disk.boot()
    try:
        wait_until(lambda: control.heartbeats, "the first boot's heartbeat")
        package = disk.state / "agent" / wheel.sha256
        agent = the_agent(first)
        line = Path(f"/proc/{agent}/cmdline").read_text()
        assert "trainer_agent.supervise" in line
        assert BOOTSTRAP_TOKEN not in line + Path(f"/proc/{agent}/environ").read_text()
        assert str(package) in Path(f"/proc/{agent}/environ").read_text()
        wait_until(lambda: not (disk.state / "bootstrap-token").exists(), "the token is removed")
        first.terminate()
        assert first.wait(10) == 0
        seen, booted = len(control.heartbeats), control.heartbeats[0]["boot_id"]
        second = disk.boot()
        wait_until(lambda: len(control.heartbeats) > seen, "the second boot's heartbeat")
        assert control.heartbeats[-1]["boot_id"] != booted
        wait_until(lambda: not (disk.state / "bootstrap-token").exists(), "removed again")
        second.terminate()
        assert second.wait(10) == 0
    finally:
        disk.end()
    assert control.paths.count("/v1/agent/wheel") == 1
    assert len(control.registrations) == 1
    assert BOOTSTRAP_TOKEN not in disk.console.read_text()


def test_an_agent_that_is_killed_is_started_again(
    tmp_path: Path, control: ControlPlane, wheel: AgentWheel
) -> None:
    disk = Disk(tmp_path, script(control, wheel))
    boot = disk.boot()
    try:
        wait_until(lambda: control.heartbeats, "a heartbeat")
        os.kill(the_agent(boot), signal.SIGKILL)
        seen = len(control.heartbeats)
        wait_until(lambda: len(control.heartbeats) > seen + 1, "another agent's heartbeat")
        assert len({beat["boot_id"] for beat in control.heartbeats}) == 1, "it is the same boot"
        assert len(control.registrations) == 1
        boot.terminate()
        assert boot.wait(10) == 0
    finally:
        disk.end()


def the_agent(boot: subprocess.Popen[bytes]) -> int:
    """The process id of the one child of the script."""
    (child,) = Path(f"/proc/{boot.pid}/task/{boot.pid}/children").read_text().split()
    return int(child)


def test_it_waits_for_a_control_plane_that_is_away(
    tmp_path: Path, control: ControlPlane, wheel: AgentWheel
) -> None:
    disk = Disk(tmp_path, script(control, wheel))
    try:
        with control.away():
            disk.boot()
            wait_until(
                lambda: disk.console.exists() and "trying again" in disk.console.read_text(),
                "it says so",
            )
        wait_until(lambda: control.heartbeats, "a heartbeat")
    finally:
        disk.end()


def test_a_wheel_with_another_hash_is_not_unpacked(
    tmp_path: Path, control: ControlPlane, wheel: AgentWheel
) -> None:
    disk = Disk(tmp_path, script(control, wheel, sha256="0" * 64))
    try:
        disk.boot()
        wait_until(
            lambda: disk.console.exists() and "its sha256 is" in disk.console.read_text(),
            "it says so",
        )
        assert not list((disk.state / "agent").iterdir())
        assert not control.registrations
    finally:
        disk.end()


def test_a_download_that_ends_half_way_is_begun_again(
    tmp_path: Path, control: ControlPlane, wheel: AgentWheel
) -> None:
    control.cuts_off = 1
    disk = Disk(tmp_path, script(control, wheel))
    half = disk.state / "agent" / f"{wheel.sha256}.7"  # of one that was killed
    half.mkdir(parents=True)
    try:
        disk.boot()
        wait_until(lambda: control.heartbeats, "a heartbeat")
    finally:
        disk.end()
    assert control.paths.count("/v1/agent/wheel") == 2
    assert [path.name for path in (disk.state / "agent").iterdir()] == [wheel.sha256]


def test_only_the_pinned_authority_is_trusted(tmp_path: Path, wheel: AgentWheel) -> None:
    authority = certificate(tmp_path, "authority", authority=True)
    shown = certificate(tmp_path, "roost", "127.0.0.1", by=authority)
    control = ControlPlane()
    control.wheel = wheel.path.read_bytes()
    control.tls = tls.serving(shown.path, shown.key)
    control.open()
    (tmp_path / "mistrusts").mkdir()
    stranger = certificate(tmp_path, "stranger", authority=True)
    mistrusts = Disk(tmp_path / "mistrusts", script(control, wheel, ca=stranger.text))
    trusts = Disk(tmp_path, script(control, wheel, ca=authority.text))
    try:
        mistrusts.boot()
        wait_until(
            lambda: (
                mistrusts.console.exists()
                and "CERTIFICATE_VERIFY_FAILED" in mistrusts.console.read_text()
            ),
            "it refuses",
        )
        assert not control.paths
        trusts.boot()
        wait_until(lambda: control.heartbeats, "a heartbeat")
    finally:
        mistrusts.end()
        trusts.end()
        control.close()
    assert control.registrations[0]["facts"]["boot_s"]["fetch"] > 0


def test_what_no_cloud_takes_is_refused() -> None:
    told = {"url": "https://a", "instance_id": "i", "bootstrap_token": "t"}
    told |= {"wheel_sha256": "0" * 64, "wheel_filename": "f"}
    assert len(user_data(**told, ca="x" * 2000).encode()) < LIMIT_BYTES
    with pytest.raises(StateError, match="clouds take 16384; 12000 of them"):
        user_data(**told, ca="x" * 12000)


def test_values_are_data_and_never_code(tmp_path: Path) -> None:
    awkward = "a'b\"$(touch pwned)`touch pwned`\n@URL@ \\"
    text = user_data(
        url="http://127.0.0.1:1",
        instance_id=awkward,
        bootstrap_token="t",
        wheel_sha256="0",
        wheel_filename=awkward,
    )
    stub = tmp_path / "python"  # prints what it is told instead of fetching
    stub.write_text('#!/bin/sh\ncat >/dev/null\nprintf "%s|" "$ROOST_INSTANCE_ID" "$@"\n')
    stub.chmod(0o755)
    (tmp_path / "script").write_text(text)
    env = {"PATH": os.environ["PATH"], "ROOST_PYTHON": str(stub), "ROOST_STATE_DIR": "state"}
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run(
        [shell, "script"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count(awkward + "|") == 3  # the id twice, and the filename
    assert not (tmp_path / "pwned").exists()
    assert (tmp_path / "state" / "bootstrap-token").stat().st_mode & 0o777 == 0o600
