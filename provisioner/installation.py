"""Who this installation is: its id, which tags its machines, and its key, which signs for them."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from pathlib import Path

from provisioner.clock import Clock
from provisioner.errors import StateError
from provisioner.ids import new_id, new_secret
from provisioner.store import installation as rows
from provisioner.store.engine import Store


@dataclass(frozen=True, slots=True)
class Installation:
    """The id is public, the key never leaves this process (nor its 0600 file)."""

    id: str
    key: bytes

    def bootstrap_token(self, launch_id: str) -> str:
        """The one-time token in a machine's user data.

        Derived, so that a launch that is sent again is the same to the last byte, and nothing that
        could be stolen from the database would do in its place.
        """
        mac = hmac.new(self.key, f"bootstrap:{launch_id}".encode(), hashlib.sha256)
        return f"boot_{mac.hexdigest()}"


def load_installation(store: Store, folder: Path, clock: Clock) -> Installation:
    """The installation of this database and state folder, made at the first start."""
    return Installation(rows.ensure(store, new_id("inst"), clock.now()), _key(folder / "key"))


def _key(path: Path) -> bytes:
    """The key file, made whole or not at all; the state folder's lock keeps makers apart."""
    if not path.exists():
        draft = path.with_suffix(".draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(new_secret("key").encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    key = path.read_bytes()
    if len(key) < 32:
        raise StateError(
            f"The key file {path} is damaged.",
            remedy="Restore it from a backup of the state folder.",
        )
    return key
