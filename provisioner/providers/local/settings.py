"""What an operator can set about the machines of this host."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from provisioner.errors import InvalidError
from provisioner.providers.local.market import MarketSettings


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Prices here are what the operator says the host's hardware costs: settings, no market's word.

    Raises `InvalidError` for values that make no sense.
    """

    python: str = sys.executable
    """Interpreter of the machines' own processes; its folder leads the PATH of boot scripts."""
    region: str = "local"
    zones: tuple[str, ...] = ("local-a",)
    """Names under which the one host sells; they share its capacity, each has a spot market."""
    currency: str = "USD"
    price_per_cpu_hour: Decimal = Decimal("0.02")
    price_per_gib_hour: Decimal = Decimal("0.0025")
    price_per_gpu_hour: Decimal = Decimal("0.60")
    price_per_volume_gib_month: Decimal = Decimal("0.05")
    """A month is 730 hours."""
    overcommit: float = 1.0
    """Cpus and memory that may be sold, as a multiple of what the host has. GPUs: never more."""
    limits: Literal["enforce", "none"] = "enforce"
    """Whether a machine is held to the cpus and memory that it was sold with."""
    private_scratch: bool = False
    """Whether machines get a /tmp and a /dev/shm of their own, where the host lets them."""
    idle_gpu_mib: int | None = None
    """A GPU that no machine holds and with more memory in use is somebody else's; None: not looked
    at."""
    market: MarketSettings = field(default_factory=MarketSettings)
    stop_grace_s: float = 5.0
    terminate_grace_s: float = 2.0
    ended_visible_s: float = 3600.0
    console_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for name in ("cpu_hour", "gib_hour", "gpu_hour", "volume_gib_month"):
            price = getattr(self, f"price_per_{name}")
            if not price.is_finite() or price < 0:
                raise InvalidError(
                    f"price_per_{name} of the local provider is {price}, not a price"
                )
        if not self.zones or len(set(self.zones)) != len(self.zones):
            raise InvalidError(f"zones of the local provider are {self.zones}: name each one once")
        for part in (self.region, *self.zones):
            if not part or "/" in part or part != part.strip():
                raise InvalidError(f"{part!r} cannot name a region or zone of the local provider")
        if not self.overcommit > 0:
            raise InvalidError(
                f"overcommit of the local provider is {self.overcommit}, must be > 0"
            )
        if self.limits not in ("enforce", "none"):
            raise InvalidError(f"limits of the local provider is {self.limits!r}: enforce or none")
        unknown = {trace.zone for trace in self.market.traces} - set(self.zones)
        if unknown:
            raise InvalidError(f"market traces name zones that are not there: {sorted(unknown)}")
