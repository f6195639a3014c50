"""The errors of the checkpoint store.

CheckpointError                names the folder, the cause and the remedy
├── StoreUnusableError         the folder cannot be made, read or written at all
├── NoSpaceError               no room for another checkpoint
└── DamagedError               what is stored is not what was written
"""

from __future__ import annotations

import errno
import os

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CAUSES = {
    errno.EROFS: ("the file system is read-only", "Mount it for writing or choose another folder."),
    errno.EACCES: ("no permission", "Let this user write there or choose another folder."),
    errno.EPERM: ("no permission", "Let this user write there or choose another folder."),
    errno.ENOTDIR: ("a part of the path is not a folder", "Choose another folder."),
    errno.EEXIST: ("a file with this name is in the way", "Choose another folder."),
    errno.ENAMETOOLONG: ("the path is too long", "Choose a shorter one."),
    errno.ELOOP: ("the path is a circle of links", "Choose another folder."),
}


class CheckpointError(Exception):
    """Base of all. `message` says what and where; `remedy` what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.message = message
        self.remedy = remedy


class StoreUnusableError(CheckpointError):
    """The folder cannot be created, listed or written."""


class NoSpaceError(CheckpointError):
    """There is no room for another checkpoint; the ones before are untouched."""


class DamagedError(CheckpointError):
    """A file is missing, too short, or not the bytes that were written; `why` says which."""

    def __init__(self, name: str, folder: str, why: str) -> None:
        super().__init__(
            f"The checkpoint {name} in {folder} is damaged: {why}.",
            "The one before it is used; check the disk.",
        )
        self.why = why


def from_os_error(error: OSError, folder: str, doing: str) -> CheckpointError:
    """The typed error for what the operating system said while `doing` in `folder`."""
    if error.errno in _FULL:
        return NoSpaceError(
            f"Cannot {doing} in {folder}: the disk, the quota or the file size limit is full.",
            "Free some space there, keep fewer checkpoints, or choose another folder.",
        )
    reason = os.strerror(error.errno) if error.errno else (str(error) or type(error).__name__)
    cause, remedy = _CAUSES.get(
        error.errno or 0, (reason, "Check the disk and the path, then start again.")
    )
    return StoreUnusableError(f"Cannot {doing} in {folder}: {cause}.", remedy)
