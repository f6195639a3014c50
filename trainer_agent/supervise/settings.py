"""What the bootstrap script tells the agent, by environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


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
            metadata=Path(env["ROOST_METADATA"]) if env.get("ROOST_METADATA") else None,
            watch_terminals=env.get("ROOST_WATCH_TTYS") == "1",
        )


def _required(env: Mapping[str, str], name: str) -> str:
    text = env.get(name, "")
    if not text:
        raise SettingsError(f"{name} is not set; the bootstrap script of the machine sets it")
    return text
