"""The home volume of a cloud machine: a disk that is found, formatted once, and never twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from provisioner.agent_wheel import AgentWheel
from provisioner.bootstrap import HomeDisk, Preparation, user_data
from tests.provisioner.bootstrap.guest import Disk, Guest
from tests.trainer_agent.supervise.control_plane import (
    BOOTSTRAP_TOKEN,
    INSTANCE,
    ControlPlane,
    wait_until,
)

HOME = "/var/lib/roost/home"
GIB = 1 << 30
HALF_AN_MKFS = """#!/bin/sh
if mkdir /var/tmp/once; then
    for disk; do :; done
    printf half | dd of="$disk" bs=1 seek=5000000 conv=notrunc
    kill -KILL "$PPID"
    exit 1
fi
exec /usr/sbin/mkfs.ext4 "$@"
"""


def script(control: ControlPlane, wheel: AgentWheel, gib: int = 1) -> str:
    return user_data(
        url=control.url,
        instance_id=INSTANCE,
        bootstrap_token=BOOTSTRAP_TOKEN,
        wheel_sha256=wheel.sha256,
        wheel_filename=wheel.filename,
        home=HomeDisk("vol_1", gib),
        preparation=Preparation(os.path.realpath(sys.executable)),
    )


def may_grow() -> bool:
    """Whether root of this host has CAP_SYS_RESOURCE (24), which a mounted ext4 asks for."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> 24 & 1)


def free_bytes(guest: Guest) -> int:
    disk = os.statvfs(guest.path(HOME))
    return disk.f_blocks * disk.f_frsize


def test_it_is_formatted_once_and_grows_with_its_disk(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    guest.plug("nvme0n1", 2 * GIB)  # blank too, but of another size
    home = guest.plug("nvme1n1", GIB)
    guest.take(script(control, wheel))
    guest.boot()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    guest.run("mountpoint", HOME)  # which fails where it is none
    assert free_bytes(guest) < GIB
    guest.path(f"{HOME}/thesis").write_text("all of it")
    uuid = str(HomeDisk("vol_1", 1)).split()[0]
    lines = guest.path("/etc/fstab").read_text().splitlines()
    assert lines[0] == "# what was there stays"
    assert [line.split()[:4] for line in lines[1:]] == [
        [f"UUID={uuid}", HOME, "ext4", "defaults,nofail,x-systemd.device-timeout=30"]
    ]
    assert "home" in control.registrations[0]["facts"]["boot_s"]
    guest.run("sync")
    guest.cut_power()
    home.grow(3 * GIB)
    seen = len(control.heartbeats)
    guest.boot()
    wait_until(lambda: len(control.heartbeats) > seen, "a heartbeat of the second boot")
    assert guest.path(f"{HOME}/thesis").read_text() == "all of it"
    if may_grow():
        assert free_bytes(guest) > 2 * GIB
    else:
        assert "the home is not grown: resize2fs /dev/nvme1n1" in guest.log()
    assert len(guest.path("/etc/fstab").read_text().splitlines()) == 2


def with_a_file_system(disk: Disk) -> None:
    subprocess.run(["mkfs.ext4", "-q", disk.device], check=True)


def with_a_partition_table(disk: Disk) -> None:
    table = bytearray(512)
    table[446 + 4] = 0x83
    table[446 + 8 : 446 + 16] = (2048).to_bytes(4, "little") + (2048).to_bytes(4, "little")
    table[510:] = b"\x55\xaa"
    with disk.file.open("r+b") as file:
        file.write(table)


def with_bytes_that_nobody_knows(disk: Disk) -> None:
    with disk.file.open("r+b") as file:
        file.seek(GIB - 10)
        file.write(b"precious")


def test_a_disk_with_anything_on_it_is_never_formatted(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    disks = [guest.plug(name, GIB) for name in ("sdb", "sdc", "sdd")]
    for use, disk in zip(
        (with_a_file_system, with_a_partition_table, with_bytes_that_nobody_knows),
        disks,
        strict=True,
    ):
        use(disk)
    before = [disk.file.stat().st_mtime_ns for disk in disks]
    note = {"disk": "/dev/sdd", "size": GIB, "boot": "another, when names were others"}
    guest.write("var/lib/roost/formatting.json", json.dumps(note))
    guest.take(script(control, wheel))
    guest.boot()
    wait_until(lambda: "one blank disk of 1 GiB" in guest.log(), "it says what is in the way")
    assert "/dev/sdb (1 GiB, ext4), /dev/sdc (1 GiB, dos), /dev/sdd (1 GiB, no" in guest.log()
    assert not control.registrations
    guest.cut_power()
    assert [disk.file.stat().st_mtime_ns for disk in disks] == before, "nothing was written"


def test_one_from_a_snapshot_is_known_by_its_label(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    home = guest.plug("vdb", 2 * GIB)
    subprocess.run(["mkfs.ext4", "-q", "-L", "roost-home", home.device, "1G"], check=True)
    guest.take(script(control, wheel, gib=2))
    guest.boot()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    guest.run("mountpoint", HOME)  # which fails where it is none
    assert guest.path(f"{HOME}/lost+found").is_dir()


def test_killed_while_it_formats_it_formats_again(
    guest: Guest, control: ControlPlane, wheel: AgentWheel
) -> None:
    """An mkfs that stops half way, once: the disk is neither blank nor a file system then."""
    home = guest.plug("vdb", GIB)
    guest.write("usr/local/sbin/mkfs.ext4", HALF_AN_MKFS, 0o755)
    guest.take(script(control, wheel))
    guest.boot()
    wait_until(lambda: control.heartbeats, "a heartbeat")
    guest.run("mountpoint", HOME)  # which fails where it is none
    assert guest.path("/var/tmp/once").exists(), "it was killed"
    assert not guest.path("/var/lib/roost/formatting.json").exists()
    assert home.file.stat().st_size == GIB
