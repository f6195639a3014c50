"""How the cloud behaves: how long things take, what is scarce, and what the account may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(slots=True)
class Knobs:
    """All durations are seconds of the cloud's own clock."""

    pending_s: float = 0.0
    stopping_s: float = 0.0
    """Of stopping and of shutting down."""
    visible_s: float = 0.0
    """How long a new instance is not found by its id."""
    lag_s: float = 0.0
    """How long a new instance is missing from lists."""
    purge_s: float = 3600.0
    """How long a terminated instance is still listed."""
    page: int = 1000
    """The most instances and prices in one page, whatever was asked for."""
    types: list[str] = field(default_factory=lambda: ["*"])
    """Patterns of the instance types that there are; few make for short answers."""
    quota_vcpus: dict[str, float] = field(default_factory=dict)
    """By the code of Service Quotas; what is not named has the limit 1000."""
    scarce: list[str] = field(default_factory=list)
    """Patterns of `zone/type/market` of which there is no capacity, such as `*/p4d*/spot`."""

    def has_type(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.types)

    def is_scarce(self, zone: str, instance_type: str, market: str) -> bool:
        name = f"{zone}/{instance_type}/{market}"
        return any(fnmatchcase(name, pattern) for pattern in self.scarce)
