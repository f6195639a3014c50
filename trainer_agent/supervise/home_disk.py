"""The home volume where it is a disk: found, given a file system when it is blank, mounted, grown.

Never formats a disk on which anything lies, and never takes one that may be somebody else's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_agent.launch.atomic import read_json, write_json
from trainer_agent.launch.process import kernel_boot
from trainer_agent.supervise.block_devices import BlockDevices, Disk, is_blank
from trainer_agent.supervise.trouble import NotYet, run

LABEL = "roost-home"
_FILESYSTEM = "ext4"
_LIMIT_S = 600.0
_FSTAB = Path("/etc/fstab")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HomeDisk:
    """A home: which file system it is, how large a new one's disk is, and where it belongs."""

    uuid: str
    gib: int
    folder: Path
    state: Path
    devices: BlockDevices
    fstab: Path = _FSTAB

    @classmethod
    def parse(cls, text: str, folder: Path, state: Path, devices: BlockDevices) -> HomeDisk:
        """From the boot script's words: the file system's UUID and the volume's GiB."""
        uuid, gib = text.split()
        return cls(uuid, int(gib), folder, state, devices)

    def mount(self) -> None:
        """Leave the home mounted and as large as its disk; idempotent, also after being killed.

        Raises:
            NotYet: its disk is not there, or cannot be told from others; the message says why.
        """
        if not os.path.ismount(self.folder):
            disks = self.devices.disks()
            disk = self._existing(disks) or self._made(disks)
            self.folder.mkdir(parents=True, exist_ok=True)
            run(
                "mount",
                "-t",
                disk.filesystem or _FILESYSTEM,
                str(disk.path),
                str(self.folder),
                limit_s=_LIMIT_S,
            )
            self._remember(disk)
            self._note.unlink(missing_ok=True)
            _log.info("the home %s is on %s", disk.uuid, disk.path)
        self._grow()

    def _existing(self, disks: Sequence[Disk]) -> Disk | None:
        """The home's file system; one with another UUID comes from a snapshot of another home."""
        same = [disk for disk in disks if disk.uuid == self.uuid]
        ours = same or [disk for disk in disks if disk.label == LABEL]
        if len(ours) > 1:
            names = ", ".join(str(disk.path) for disk in ours)
            raise NotYet(f"{names} all look like the home {self.uuid}: detach all but one")
        return ours[0] if ours else None

    def _made(self, disks: Sequence[Disk]) -> Disk:
        """A blank disk of exactly the volume's size, with a file system from now on."""
        sized = [disk for disk in disks if disk.size_bytes == self.gib << 30]
        blank = [disk for disk in sized if self._was_begun(disk) or is_blank(disk)]
        if len(blank) != 1:
            seen = ", ".join(_described(disk) for disk in disks) or "none"
            raise NotYet(
                f"one blank disk of {self.gib} GiB is to become the home {self.uuid}, "
                f"and there are {len(blank)}; disks: {seen}"
            )
        disk = blank[0]
        write_json(self._note, self._begun(disk))
        run(
            *("mkfs.ext4", "-q", "-F", "-m", "0", "-L", LABEL, "-U", self.uuid, str(disk.path)),
            limit_s=_LIMIT_S,
        )
        return Disk(disk.path, disk.size_bytes, _FILESYSTEM, self.uuid, LABEL)

    @property
    def _note(self) -> Path:
        return self.state / "formatting.json"

    def _begun(self, disk: Disk) -> dict[str, str | int]:
        """Names of disks hold for one boot only, so the note does too."""
        return {"disk": str(disk.path), "size": disk.size_bytes, "boot": kernel_boot()}

    def _was_begun(self, disk: Disk) -> bool:
        """Whether it was blank a moment ago, and we were killed while we formatted it."""
        return disk.filesystem is None and read_json(self._note) == self._begun(disk)

    def _remember(self, disk: Disk) -> None:
        """Let it be there at the next boot before anything of ours runs, and not be waited for."""
        kept = [
            line
            for line in _lines(self.fstab)
            if line.split()[1:2] != [str(self.folder)] or line.startswith("#")
        ]
        kind = disk.filesystem or _FILESYSTEM
        kept.append(
            f"UUID={disk.uuid} {self.folder} {kind} defaults,nofail,x-systemd.device-timeout=30 0 2"
        )
        draft = self.fstab.with_name(".fstab.roost")
        draft.write_text("\n".join(kept) + "\n")
        draft.chmod(0o644)
        draft.replace(self.fstab)

    def _grow(self) -> None:
        """Into what its disk has more than before; a home that stays small is one all the same."""
        line = ("findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", "--mountpoint")
        source, kind = run(*line, str(self.folder), limit_s=_LIMIT_S).stdout.split()[:2]
        if kind != _FILESYSTEM:
            return
        try:
            run("resize2fs", source, limit_s=_LIMIT_S)
        except NotYet as error:
            _log.warning("the home is not grown: %s", error)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def _described(disk: Disk) -> str:
    what = disk.filesystem or "no file system"
    return f"{disk.path} ({disk.size_bytes / 2**30:g} GiB, {what})"
