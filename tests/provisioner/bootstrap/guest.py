"""A machine whose PID 1 is systemd, for real, in namespaces of this host.

Its disk is this host's root with what it changes laid over it, its network is this host's. A power
cut kills all of it at once; what was written stays, so it may be booted again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trainer_agent.supervise.control_plane import wait_until

_SYSTEMD = Path("/lib/systemd/systemd")
_MEMORY = Path("/dev/shm")
_FIRST_BOOT = """
[Unit]
After=network-online.target
Wants=network-online.target
ConditionPathExists=!/var/lib/cloud/instance/done
[Service]
Type=oneshot
ExecStart=/var/lib/cloud/instance/scripts/part-001
ExecStartPost=/bin/touch /var/lib/cloud/instance/done
StandardOutput=append:/var/log/user-data.log
StandardError=append:/var/log/user-data.log
[Install]
WantedBy=multi-user.target
"""
"""As cloud-init does it: a file of its own, once in the life of a disk, as root."""

_BOOT = """
set -eu
root="$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount -t tmpfs tmpfs "$root/sys/block"
while read -r name number sectors; do
    mkdir "$root/sys/block/$name"
    echo "$sectors" > "$root/sys/block/$name/size"
    echo 0 > "$root/sys/block/$name/ro"
    mknod "$root/dev/$name" b 7 "$number"
done < "$1/disks"
exec env -i container=roost PATH="$PATH" chroot "$root" /lib/systemd/systemd \
    --unit=multi-user.target --show-status=0 --log-target=journal
"""


@dataclass(frozen=True)
class Disk:
    """A disk that is plugged in at the next boot: a file behind a loop device."""

    name: str
    device: str
    file: Path

    @property
    def line(self) -> str:
        number = self.device.removeprefix("/dev/loop")
        return f"{self.name} {number} {self.file.stat().st_size // 512}\n"

    def grow(self, size: int) -> None:
        os.truncate(self.file, size)
        subprocess.run(["losetup", "--set-capacity", self.device], check=True)


class Guest:
    """One machine. `close` leaves nothing of it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="roost-guest-", dir=_MEMORY))
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        (self.folder / "disks").touch()
        self._disks: list[Disk] = []
        self._process: subprocess.Popen[bytes] | None = None
        # Services of this host are none of the machine's: an empty folder hides them all.
        for name in ("etc/systemd/system", "var/lib/roost", "var/lib/cloud"):
            folder = self.folder / "upper" / name
            folder.mkdir(parents=True, exist_ok=True)
            os.setxattr(folder, "trusted.overlay.opaque", b"y")
        self.write("etc/machine-id", "")
        self.write("etc/fstab", "# what was there stays\n")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file on the disk of a machine that is off."""
        file = self.folder / "upper" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def take(self, user_data: str) -> None:
        """Have it run at the first boot."""
        self.write("var/lib/cloud/instance/scripts/part-001", user_data, 0o700)
        self.write("etc/systemd/system/first-boot.service", _FIRST_BOOT)
        self.enable("first-boot.service", by="multi-user.target")

    def enable(self, *units: str, by: str) -> None:
        """Have units start with another one, as `systemctl enable` does."""
        wants = self.folder / f"upper/etc/systemd/system/{by}.wants"
        wants.mkdir(exist_ok=True)
        for unit in units:
            own = self.folder / "upper/etc/systemd/system" / unit
            folder = "/etc" if own.exists() else "/lib"
            (wants / unit).symlink_to(f"{folder}/systemd/system/{unit}")

    def plug(self, name: str, size: int) -> Disk:
        """A disk of `size` zeros; it takes no room."""
        file = self.folder / f"{name}.img"
        file.touch()
        os.truncate(file, size)
        line = ["losetup", "--find", "--show", str(file)]
        found = subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()
        disk = Disk(name, found, file)
        self._disks.append(disk)
        return disk

    def boot(self) -> None:
        (self.folder / "disks").write_text("".join(disk.line for disk in self._disks))
        spaces = ["unshare", "-m", "-p", "-f", "-u", "-i", "-C", "--propagation", "private"]
        with (self.folder / "boot.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*spaces, "sh", "-c", _BOOT, "boot", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(self._is_up, "systemd runs")

    def run(self, *argv: str, check: bool = True) -> str:
        """A command on the running machine; its output."""
        line = ["nsenter", "--target", str(self.init), "--all", "--root", "--wd=/", *argv]
        done = subprocess.run(line, check=check, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def path(self, path: str) -> Path:
        """A file of the running machine, as seen from here."""
        return Path(f"/proc/{self.init}/root") / path.lstrip("/")

    def log(self) -> str:
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit=roost-agent")

    def agent(self) -> int:
        """The process that systemd keeps, as seen from the machine; 0 when there is none."""
        line = ("systemctl", "show", "--property=MainPID", "--value", "roost-agent")
        return int(self.run(*line).strip() or 0)

    @property
    def init(self) -> int:
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        (child,) = children.read_text().split()
        return int(child)

    def cut_power(self) -> None:
        os.kill(self.init, signal.SIGKILL)
        self._gone()

    def shut_down(self) -> None:
        os.kill(self.init, signal.SIGRTMIN + 4)  # systemd(1): poweroff.target
        self._gone()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            try:
                os.kill(self.init, signal.SIGKILL)
            except (ValueError, ProcessLookupError):
                self._process.kill()
            self._gone()
        for disk in self._disks:
            subprocess.run(["losetup", "--detach", disk.device], check=True)
        shutil.rmtree(self.folder)

    def _gone(self) -> None:
        assert self._process is not None
        self._process.wait(60)

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            pytest.fail(f"no boot: {(self.folder / 'boot.log').read_text()}")
        try:
            return self.path("/run/systemd/private").exists()
        except ValueError:
            return False  # not forked yet


def can_boot() -> bool:
    """Whether this host lets namespaces, an overlay and systemd be had; tried, not guessed."""
    if os.geteuid() != 0 or not _SYSTEMD.exists() or not shutil.which("nsenter"):
        return False
    folder = Path(tempfile.mkdtemp(prefix="roost-guest-", dir=_MEMORY))
    try:
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        script = (
            'mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" '
            '&& mount -t tmpfs tmpfs "$1/root/tmp" && mkdir "$1/root/tmp/c" '
            '&& mount -t cgroup -o none,name=systemd cgroup "$1/root/tmp/c"'
        )
        line: Sequence[str] = ("unshare", "-m", "-C", "--propagation", "private", "sh", "-c")
        return (
            subprocess.run([*line, script, "try", str(folder)], capture_output=True).returncode == 0
        )
    finally:
        shutil.rmtree(folder)
