"""The user data of a machine: one shell script for every provider that gets the agent running.

It is a `#!/bin/sh` script and neither `#cloud-config` nor MIME: cloud-init runs those bytes as they
are, and so does a provider that has no cloud-init (`local`, `ssh`). It needs a POSIX shell and
Python 3.11, no package, and no root beyond a writable state folder. What is longer than a page
(disks, packages) lies in the agent's wheel, that it fetches.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from shlex import quote

from provisioner.bootstrap.script import SCRIPT
from provisioner.errors import StateError

LIMIT_BYTES = 16384
"""EC2's, the smallest of all clouds', before it is encoded (EC2 User Guide, "user data")."""
_HOME = uuid.UUID("3c1d5e0a-7f0e-5b52-9a3c-6f0f2a6f6f11")


@dataclass(frozen=True, slots=True)
class HomeDisk:
    """The home volume, on clouds where it is a disk of its own."""

    volume_id: str
    """Ours. A file system's UUID follows from it, so a machine knows its home on any cloud."""
    gib: int

    def __str__(self) -> str:
        return f"{uuid.uuid5(_HOME, self.volume_id)} {self.gib}"


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a machine must have beside the agent."""

    python: str = "python3"
    """Interpreter on the machine, by path or name."""
    packages: tuple[str, ...] = ()
    """`name` or `name==version`; what that interpreter lacks is installed beside it."""
    package_index: str | None = None
    """URL of a package index; None for pip's default."""


_NOTHING = Preparation()


def user_data(
    *,
    url: str,
    instance_id: str,
    bootstrap_token: str,
    wheel_sha256: str,
    wheel_filename: str,
    ca: str | None = None,
    home: HomeDisk | None = None,
    preparation: Preparation = _NOTHING,
) -> str:
    """The script. The token appears in it once and is never an argument or part of a URL.

    `url` is the control plane's as the machine reaches it, `ca` the PEM text of the only authority
    that may vouch for it (None: those the machine trusts). A first boot downloads the wheel of
    `wheel_sha256`, for as long as the control plane is away; later boots find it unpacked.

    Raises:
        StateError: it is longer than what clouds accept.
    """
    values = {
        "@TOKEN@": bootstrap_token,
        "@URL@": url.rstrip("/"),
        "@INSTANCE@": instance_id,
        "@SHA256@": wheel_sha256,
        "@FILENAME@": wheel_filename,
        "@CA@": (ca or "").strip(),
        "@HOME_DISK@": str(home or ""),
        "@PYTHON@": preparation.python,
        "@PACKAGES@": " ".join(preparation.packages),
        "@INDEX@": preparation.package_index or "",
    }
    lines = [_fill(line, values) for line in SCRIPT.splitlines()]
    text = "\n".join(lines) + "\n"
    size = len(text.encode())
    if size > LIMIT_BYTES:
        raise StateError(
            f"The machines' boot script is {size} bytes long, and clouds take {LIMIT_BYTES}; "
            f"{len((ca or '').encode())} of them are the certificates to trust.",
            remedy="Name a file with one certificate as `tls_ca`, and fewer `packages`.",
        )
    return text


def _fill(line: str, values: dict[str, str]) -> str:
    """Put a value into a line of the script; a line holds one at most, so none is filled twice."""
    for name, value in values.items():
        if name in line:
            return line.replace(name, quote(value))
    return line
