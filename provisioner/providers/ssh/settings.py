"""The machines that a team owns: the table `[ssh]` of the configuration file."""

from __future__ import annotations

import base64
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Price = Annotated[Decimal, Field(ge=0)]
_KEY = r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/=]+( .*)?$"


class HostSettings(BaseModel):
    """One host. Its prices are what its owner says that it costs; 0 is a price."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
    address: str = Field(min_length=1, max_length=255)
    port: int = Field(default=22, ge=1, le=65535)
    user: str = Field(min_length=1, max_length=64)
    key_file: Path
    """The private key that logs in; without a passphrase."""
    host_key: str = Field(pattern=_KEY)
    """The host's public key, as `ssh-keyscan` or the file /etc/ssh/ssh_host_*_key.pub has it."""
    folder: str = Field(default="~/.roost-host", min_length=2, max_length=255)
    """Where machines and homes lie on the host; absolute, or from the user's home."""
    python: str = Field(default="python3", pattern=r"^[A-Za-z0-9._/-]+$")
    """An interpreter of at least Python 3.11."""
    gpus: int | None = Field(default=None, ge=0, le=64)
    """How many it has: with fewer that answer, nothing more is put on it."""
    enforce_limits: bool = False
    """Whether machines are held to their CPUs and memory, which takes a cgroup on the host."""
    overcommit: float = Field(default=1.0, ge=1.0, le=64.0)
    price_per_cpu_hour: Price = Decimal(0)
    price_per_gib_hour: Price = Decimal(0)
    price_per_gpu_hour: Price = Decimal(0)
    price_per_gib_month: Price = Decimal(0)
    drain: bool = False
    """Nothing new is put on it; what is there goes on. To be set before a host is taken out."""

    @field_validator("host_key")
    @classmethod
    def _whole(cls, host_key: str) -> str:
        kind, encoded = host_key.split()[:2]
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except ValueError:
            decoded = b""
        if decoded[: 4 + len(kind)] != len(kind).to_bytes(4, "big") + kind.encode():
            raise ValueError("it is no whole public key: copy the line as it is")
        return host_key

    @field_validator("folder")
    @classmethod
    def _plain(cls, folder: str) -> str:
        if not folder.startswith(("/", "~/")) or ".." in folder.split("/") or "\n" in folder:
            raise ValueError("it must be absolute, or begin with ~/, without ..")
        return folder


class SshSettings(BaseModel):
    """All hosts, and what their prices are in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: tuple[HostSettings, ...] = Field(min_length=1)
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    gone: frozenset[str] = frozenset()
    """Names of hosts that were taken out, or broke, and never come back: what was there is lost."""

    @model_validator(mode="after")
    def _names_are_different(self) -> Self:
        names = [host.name for host in self.hosts]
        if len(set(names)) != len(names):
            raise ValueError("two hosts have one name")
        if back := self.gone & set(names):
            raise ValueError(f"{', '.join(sorted(back))} cannot be gone and be among the hosts")
        return self
