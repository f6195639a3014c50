"""What the bootstrap script tells the agent, by environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from trainer_agent.supervise.metadata_service import ADDRESS, detected

_SERVICES = ("aws", "gce", "azure")


class SettingsError(Exception):
    """The agent was started without what it needs; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the control plane is and where things lie on this machine."""

    url: str
    instance_id: str
    state: Path
    """The agent's own folder, on the machine's disk."""
    home: Path
    """The volume whose free space is reported."""
    bootstrap_token: Path
    metadata: Path | None
    """The local provider's metadata folder; None on machines without one."""
    metadata_service: str | None
    """The cloud whose notices are read: `aws`, `gce` or `azure`."""
    metadata_address: str
    """HOST or HOST:PORT of that cloud's metadata service."""
    ca: Path | None
    """PEM file of the only authority that may vouch for the control plane; None: the machine's."""
    watch_terminals: bool

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Raises `SettingsError`."""
        url = _required(env, "ROOST_URL").rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"ROOST_URL must be http://... or https://..., not {url!r}")
        state = Path(_required(env, "ROOST_STATE_DIR"))
        return cls(
            url=url,
            instance_id=_required(env, "ROOST_INSTANCE_ID"),
            state=state,
            home=Path(env.get("ROOST_HOME") or state),
            bootstrap_token=Path(
                env.get("ROOST_BOOTSTRAP_TOKEN_FILE") or state / "bootstrap-token"
            ),
            metadata=_path(env, "ROOST_METADATA"),
            metadata_service=_service(env),
            metadata_address=env.get("ROOST_METADATA_ADDRESS") or ADDRESS,
            ca=_path(env, "ROOST_CA_FILE"),
            watch_terminals=env.get("ROOST_WATCH_TTYS") == "1",
        )


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _service(env: Mapping[str, str]) -> str | None:
    """As it is named, else as the firmware says; a part of a host hears from its provider alone."""
    named = env.get("ROOST_METADATA_SERVICE")
    if named is not None and named not in (*_SERVICES, ""):
        raise SettingsError(
            f"ROOST_METADATA_SERVICE must be one of {', '.join(_SERVICES)}, not {named!r}"
        )
    if named is None and not env.get("ROOST_METADATA"):
        return detected()
    return named or None


def _required(env: Mapping[str, str], name: str) -> str:
    text = env.get(name, "")
    if not text:
        raise SettingsError(f"{name} is not set; the bootstrap script of the machine sets it")
    return text
