"""How the control plane is, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from policies.world import Closure, Cooldown


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """A provider: when it was heard last, and what it does not tell."""

    name: str
    listed_at: datetime | None
    stale: bool
    message: str | None
    offered_at: datetime | None
    offers_message: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """The reconciler, the providers, and what is not bought at the moment."""

    version: str
    installation_id: str
    time: datetime
    reconciler_holder: str | None
    epoch: int | None
    last_tick_at: datetime | None
    tick_ms: float | None
    providers: tuple[ProviderStatus, ...]
    cooldowns: tuple[Cooldown, ...]
    closures: tuple[Closure, ...]
