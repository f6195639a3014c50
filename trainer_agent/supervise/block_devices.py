"""The disks of a machine, as the kernel lists them. Reads; writes nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_agent.supervise.trouble import NotYet, run

_SECTOR = 512  # of sysfs, whatever the disk's own is
_PROBE_LIMIT_S = 30.0
_NOTHING_FOUND = 2  # of blkid
_CHUNK = 1 << 20
_HEAD_BYTES = 16 << 20
_SAMPLES = 256
_SAMPLE_BYTES = 4096
_NO_DISKS = ("loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd")
_SCRATCH = ("instance storage", "ephemeraldisk", "nvme_card", "nvme direct disk")
"""Models of disks that end with a stop of their machine: EC2, GCE (SCSI, NVMe), Azure."""
_LASTING = ("nvme_card-pd",)


@dataclass(frozen=True, slots=True)
class Disk:
    """A whole disk, and the file system that lies on it without a partition."""

    path: Path
    size_bytes: int
    filesystem: str | None = None
    uuid: str | None = None
    label: str | None = None


class BlockDevices:
    """Looks anew at each call: clouds attach disks while a machine runs."""

    def __init__(self, sysfs: Path = Path("/sys/block"), devices: Path = Path("/dev")) -> None:
        self._sysfs = sysfs
        self._devices = devices

    def disks(self) -> Sequence[Disk]:
        """Disks that can be written and are neither partitioned nor somebody's scratch.

        Raises:
            NotYet: a disk cannot be probed.
        """
        found = []
        for folder in sorted(self._sysfs.iterdir()) if self._sysfs.is_dir() else ():
            if folder.name.startswith(_NO_DISKS) or not _is_whole(folder):
                continue
            path = self._devices / folder.name.replace("!", "/")
            if size := int(_word(folder / "size") or 0) * _SECTOR:
                found.append(Disk(path, size, *_probe(path)))
        return found


def is_blank(disk: Disk) -> bool:
    """Whether nothing lies on a disk that is in nobody's hands: no signature, and zeros all over.

    Signatures alone do not suffice: data may lie on a disk in ways that no program knows.

    Raises:
        NotYet: it cannot be read.
    """
    if disk.filesystem is not None:
        return False
    try:
        handle = os.open(disk.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:  # mounted, or a part of something
            return False
        raise NotYet(f"{disk.path} cannot be opened: {error.strerror}") from None
    try:
        return all(
            not any(os.pread(handle, length, offset)) for offset, length in _places(disk.size_bytes)
        )
    except OSError as error:
        raise NotYet(f"{disk.path} cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)


def _places(size: int) -> list[tuple[int, int]]:
    """The beginning, the end, and samples in between: (offset, length)."""
    head = [(offset, _CHUNK) for offset in range(0, min(size, _HEAD_BYTES), _CHUNK)]
    step = max(size // _SAMPLES, _SAMPLE_BYTES)
    samples = [(offset, _SAMPLE_BYTES) for offset in range(0, size, step)]
    return [*head, *samples, (max(0, size - _CHUNK), _CHUNK)]


def _probe(path: Path) -> tuple[str | None, str | None, str | None]:
    """Type, UUID and label of what lies on a disk, read from the disk and not from any cache."""
    line = ("blkid", "--probe", "--output", "export", str(path))
    done = run(*line, limit_s=_PROBE_LIMIT_S, accepted=(0, _NOTHING_FOUND))
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    kind = values.get("TYPE") or values.get("PTTYPE")
    return kind, values.get("UUID"), values.get("LABEL")


def _is_whole(folder: Path) -> bool:
    model = (_word(folder / "device" / "model") or "").lower()
    scratch = any(word in model for word in _SCRATCH) and model not in _LASTING
    partitioned = any((part / "partition").exists() for part in folder.iterdir())
    return not scratch and not partitioned and _word(folder / "ro") != "1"


def _word(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
