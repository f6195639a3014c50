from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainer_agent.supervise import prepare
from trainer_agent.supervise.block_devices import BlockDevices, Disk
from trainer_agent.supervise.boot_parts import BootParts
from trainer_agent.supervise.trouble import NotYet


def test_what_fails_is_tried_until_it_works_or_nobody_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(prepare.time, "sleep", pauses.append)
    answers = iter(["the disk is away", "the disk is away", "the disk is odd"])

    def step() -> str:
        for words in answers:
            raise NotYet(words)
        return "done"

    assert prepare._insist(step) == "done"
    assert pauses == [1.0, 1.5, 2.25]
    assert [record.message for record in caplog.records] == [
        "the disk is away; trying on",
        "the disk is odd; trying on",
    ]
    parents = iter([1000, 1])  # who waited has died: the second one is init
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    answers = iter(["the disk is away"])
    with pytest.raises(SystemExit, match="nobody waits"):
        prepare._insist(step)


def test_parts_of_a_boot_are_told(tmp_path: Path) -> None:
    parts = BootParts(tmp_path)
    assert parts.read() == {}
    (tmp_path / "boot-parts").write_text("fetch 1.250\nhome 9\nhalf of a li")
    with parts.measure("home"):
        pass
    with pytest.raises(ZeroDivisionError), parts.measure("packages"):
        _ = 1 / 0
    told = parts.read()
    assert told["fetch"] == 1.25
    assert "packages" not in told


def test_scratch_disks_and_parts_of_others_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plug(name: str, model: str = "", sectors: int = 2048, ro: str = "0") -> Path:
        folder = tmp_path / "sys" / name
        (folder / "device").mkdir(parents=True)
        (folder / "device" / "model").write_text(model + "\n")
        (folder / "size").write_text(f"{sectors}\n")
        (folder / "ro").write_text(ro + "\n")
        return folder

    plug("nvme0n1", "Amazon Elastic Block Store")
    plug("nvme1n1", "Amazon EC2 NVMe Instance Storage")
    plug("nvme2n1", "nvme_card")  # a local SSD of GCE
    plug("nvme3n1", "nvme_card-pd")
    plug("sda", "EphemeralDisk")
    plug("sdb", ro="1")
    plug("sdc", sectors=0)
    (plug("vda") / "vda1").mkdir()
    (tmp_path / "sys" / "vda" / "vda1" / "partition").write_text("1\n")
    for name in ("loop0", "sr0", "zram0", "dm-0", "md0"):
        plug(name)
    (tmp_path / "bin").mkdir()
    blkid = tmp_path / "bin" / "blkid"
    blkid.write_text('#!/bin/sh\necho "DEVNAME=$4"\necho UUID=u\necho LABEL=l\necho TYPE=ext4\n')
    blkid.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = BlockDevices(tmp_path / "sys", Path("/dev")).disks()
    assert found == [
        Disk(Path("/dev/nvme0n1"), 1 << 20, "ext4", "u", "l"),
        Disk(Path("/dev/nvme3n1"), 1 << 20, "ext4", "u", "l"),
    ]
