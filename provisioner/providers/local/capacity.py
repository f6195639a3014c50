"""What of the host is sold, and whether there is room for one more machine on which GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from policies.world import PurchaseMode
from provisioner.errors import CapacityError
from provisioner.providers.local.host import Gpu, Host
from provisioner.providers.local.machine import record
from provisioner.providers.local.machine_folder import MachineFolder, Spec
from provisioner.providers.local.market import Market
from provisioner.providers.local.settings import LocalSettings


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one run of a machine holds."""

    gpus: tuple[str, ...]
    """UUIDs; no other machine has them at the same time."""
    slot: int
    """Rank among the spot machines of its zone: as the market shrinks, the highest goes first."""


@dataclass(frozen=True, slots=True)
class Sold:
    """What the machines that run now hold of the host."""

    cpus: float = 0.0
    memory_gib: float = 0.0
    gpus: frozenset[str] = frozenset()
    """UUIDs."""
    slots: frozenset[tuple[str, int]] = frozenset()
    """Zone and rank of the spot machines."""

    @classmethod
    def to(cls, folders: Iterable[MachineFolder]) -> Sold:
        """What these machines hold."""
        sold = cls()
        for held, boot in _live(folders):
            slot = (held.zone, boot.get("slot", 0))
            spot = held.mode is PurchaseMode.SPOT
            sold = cls(
                sold.cpus + held.cpus,
                sold.memory_gib + held.memory_gib,
                sold.gpus | set(boot.get("gpus", ())),
                sold.slots | ({slot} if spot else set()),
            )
        return sold

    def free_gpus(self, host: Host, idle_mib: int | None) -> list[Gpu]:
        """GPUs that no machine holds and, of those, nobody else uses; see `idle_gpu_mib`."""
        return [
            gpu
            for gpu in host.gpus
            if gpu.uuid not in self.gpus and (idle_mib is None or gpu.used_mib <= idle_mib)
        ]


def allocate(
    spec: Spec,
    others: Iterable[MachineFolder],
    host: Host,
    settings: LocalSettings,
    market: Market,
    now: datetime,
) -> Allocation:
    """Raises `CapacityError` when there is no room now. The caller holds the root's lock."""
    sold = Sold.to(folder for folder in others if folder.id != spec.launch_id)
    cpus, memory_gib = sold.cpus + spec.cpus, sold.memory_gib + spec.memory_gib
    free_gpus = [gpu.uuid for gpu in sold.free_gpus(host, settings.idle_gpu_mib)]
    for what, wanted, has in (
        ("cpus", cpus, host.cpus * settings.overcommit),
        ("GiB of memory", memory_gib, host.memory_gib * settings.overcommit),
    ):
        if wanted > has:
            raise CapacityError(
                f"no room for {spec.offer_id}: it would bring the {what} sold to {wanted:g},"
                f" this host sells {has:g}",
                remedy="Stop or terminate a machine, or raise `overcommit`.",
            )
    if spec.gpus > len(free_gpus):
        raise CapacityError(f"no room for {spec.offer_id}: {len(free_gpus)} GPUs are free")
    return Allocation(tuple(free_gpus[: spec.gpus]), _slot(spec, sold, market, now))


def _slot(spec: Spec, sold: Sold, market: Market, now: datetime) -> int:
    taken = {slot for zone, slot in sold.slots if zone == spec.zone}
    slot = next(number for number in range(len(taken) + 1) if number not in taken)
    capacity = market.capacity(spec.zone, now)
    if spec.mode is PurchaseMode.SPOT and capacity is not None and slot >= capacity:
        raise CapacityError(f"the spot market of zone {spec.zone} has no {spec.instance_type} now")
    return slot


def _live(folders: Iterable[MachineFolder]) -> Iterator[tuple[Spec, dict[str, Any]]]:
    for folder in folders:
        spec, state = folder.spec(), folder.state()
        if spec and state and state["state"] in (record.PENDING, record.RUNNING):
            yield spec, folder.boot() or {}
