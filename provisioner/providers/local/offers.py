"""What this host sells: machine types cut from its hardware, on demand and spot, in each zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from policies.world import Offer, PurchaseMode, Resources
from provisioner.gpus import canonical_gpu
from provisioner.providers.local.host import Host
from provisioner.providers.local.market import Market
from provisioner.providers.local.settings import LocalSettings

NAME = "local"
GIB_PER_CPU = 2


@dataclass(frozen=True, slots=True)
class MachineType:
    """A size of machine, such as `local.2x4` (2 cpus, 4 GiB) or `local.8x64.1gpu`."""

    name: str
    resources: Resources

    def on_demand_price(self, settings: LocalSettings) -> Decimal:
        return (
            settings.price_per_cpu_hour * Decimal(str(self.resources.cpus))
            + settings.price_per_gib_hour * Decimal(str(self.resources.memory_gib))
            + settings.price_per_gpu_hour * self.resources.gpus
        )


def type_named(name: str) -> MachineType | None:
    """The type of a name, also one that this host has sold in another shape of itself."""
    match = re.fullmatch(r"local\.(\d+)x(\d+)(?:\.(\d+)gpu)?", name)
    if not match:
        return None
    cpus, memory_gib, gpus = (int(part or 0) for part in match.groups())
    return MachineType(name, Resources(float(cpus), float(memory_gib), gpus))


def machine_types(host: Host) -> tuple[MachineType, ...]:
    """1, 2, 4, ... cpus, the whole host, and shares of the host with 1, 2, 4, ... GPUs."""
    sizes = [(cpus, cpus * GIB_PER_CPU, 0) for cpus in _doublings(host.cpus)]
    sizes.append((host.cpus, host.memory_gib, 0))
    total = len(host.gpus)
    for gpus in (*_doublings(total), total) if total else ():
        share = (host.cpus * gpus // total, host.memory_gib * gpus // total)
        sizes.append((max(1, share[0]), max(1, share[1]), gpus))
    fitting = dict.fromkeys(size for size in sizes if size[1] <= host.memory_gib)
    return tuple(_machine_type(host, *size) for size in fitting)


def offers(
    types: tuple[MachineType, ...], settings: LocalSettings, market: Market, now: datetime
) -> tuple[Offer, ...]:
    """Every offer at its price of now."""
    return tuple(
        _offer(one, zone, mode, settings, market, now)
        for zone in settings.zones
        for one in types
        for mode in (PurchaseMode.ON_DEMAND, PurchaseMode.SPOT)
    )


def _offer(
    one: MachineType,
    zone: str,
    mode: PurchaseMode,
    settings: LocalSettings,
    market: Market,
    now: datetime,
) -> Offer:
    price = one.on_demand_price(settings)
    if mode is PurchaseMode.SPOT:
        price = market.price(zone, price, now)
    return Offer(
        id=f"{NAME}/{settings.region}/{zone}/{one.name}/{mode}",
        provider=NAME,
        region=settings.region,
        zone=zone,
        instance_type=one.name,
        mode=mode,
        resources=one.resources,
        price_per_hour=price,
        currency=settings.currency,
        can_stop=mode is PurchaseMode.ON_DEMAND,
    )


def _machine_type(host: Host, cpus: int, memory_gib: int, gpus: int) -> MachineType:
    model = canonical_gpu(host.gpus[0].model) if gpus else None
    name = f"local.{cpus}x{memory_gib}" + (f".{gpus}gpu" if gpus else "")
    return MachineType(name, Resources(float(cpus), float(memory_gib), gpus, model))


def _doublings(limit: int) -> tuple[int, ...]:
    return tuple(1 << power for power in range(limit.bit_length()) if 1 << power <= limit)
