"""Who this machine is: its own token, whether the control plane knows it, and which boot this is.

The token is drawn here and never leaves the machine but as a bearer header; the control plane keeps
only its hash. All of it lies in the agent's state folder, so later boots of the disk reuse it.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from trainer_agent.launch.atomic import read_json, write_atomic, write_json
from trainer_agent.launch.process import kernel_boot


@dataclass(frozen=True, slots=True)
class Identity:
    """The machine's own secret, and where it has registered."""

    state: Path
    instance_id: str
    token: str = field(repr=False)

    @classmethod
    def load(cls, state: Path, instance_id: str) -> Identity:
        """Read the token or draw one. A disk copied from another instance gets a new one."""
        registered = read_json(state / "registered.json") or {}
        if registered and registered.get("instance_id") != instance_id:
            (state / "registered.json").unlink()
            (state / "token").unlink(missing_ok=True)
        path = state / "token"
        with contextlib.suppress(FileNotFoundError):
            if token := path.read_text().strip():
                return cls(state, instance_id, token)
        token = "agent_" + secrets.token_urlsafe(32)
        write_atomic(path, token.encode())
        return cls(state, instance_id, token)

    @property
    def token_sha256(self) -> str:
        return hashlib.sha256(self.token.encode()).hexdigest()

    @property
    def registered(self) -> bool:
        return (self.state / "registered.json").exists()

    def mark_registered(self) -> None:
        write_json(self.state / "registered.json", {"instance_id": self.instance_id})

    def redact(self, data: bytes) -> bytes:
        """`data` without the token, of the same length so that offsets stay true."""
        token = self.token.encode()
        return data.replace(token, b"*" * len(token))


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of the machine; it outlives the agent.

    The bootstrap script ends it by deleting `boot.json`: machines that share a kernel also share
    the kernel's boot id.
    """

    id: str
    began_s: float
    """`time.monotonic()` when the agent first saw this boot."""

    @classmethod
    def load(cls, state: Path) -> Boot:
        path = state / "boot.json"
        record = read_json(path) or {}
        kernel = kernel_boot()
        if record.get("kernel") == kernel and "id" in record and "began_s" in record:
            return cls(str(record["id"]), float(record["began_s"]))
        boot = cls(secrets.token_hex(16), time.monotonic())
        write_json(path, {"id": boot.id, "began_s": boot.began_s, "kernel": kernel})
        return boot

    def uptime_s(self) -> float:
        return round(time.monotonic() - self.began_s, 3)
