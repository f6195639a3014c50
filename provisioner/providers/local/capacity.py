"""Whether the host has room for one more machine, and which GPUs and market slot it gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from policies.world import PurchaseMode
from provisioner.errors import CapacityError
from provisioner.providers.local.host import Host
from provisioner.providers.local.machine import record
from provisioner.providers.local.machine_folder import MachineFolder, Spec
from provisioner.providers.local.market import Market


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one run of a machine holds."""

    gpus: tuple[str, ...]
    """UUIDs; no other machine has them at the same time."""
    slot: int
    """Rank among the spot machines of its zone: as the market shrinks, the highest goes first."""


def allocate(
    spec: Spec,
    others: Iterable[MachineFolder],
    host: Host,
    overcommit: float,
    market: Market,
    now: datetime,
) -> Allocation:
    """Raises `CapacityError` when there is no room now. The caller holds the root's lock."""
    cpus, memory_gib = spec.cpus, spec.memory_gib
    free_gpus = [gpu.uuid for gpu in host.gpus]
    slots: set[int] = set()
    for held, boot in _live(others, spec.launch_id):
        cpus += held.cpus
        memory_gib += held.memory_gib
        free_gpus = [uuid for uuid in free_gpus if uuid not in boot.get("gpus", ())]
        if held.zone == spec.zone and held.mode is PurchaseMode.SPOT:
            slots.add(boot.get("slot", 0))
    for what, wanted, has in (
        ("cpus", cpus, host.cpus * overcommit),
        ("GiB of memory", memory_gib, host.memory_gib * overcommit),
    ):
        if wanted > has:
            raise CapacityError(
                f"no room for {spec.offer_id}: it would bring the {what} sold to {wanted:g},"
                f" this host sells {has:g}",
                remedy="Stop or terminate a machine, or raise `overcommit`.",
            )
    if spec.gpus > len(free_gpus):
        raise CapacityError(f"no room for {spec.offer_id}: {len(free_gpus)} GPUs are free")
    return Allocation(tuple(free_gpus[: spec.gpus]), _slot(spec, slots, market, now))


def _slot(spec: Spec, taken: set[int], market: Market, now: datetime) -> int:
    slot = next(number for number in range(len(taken) + 1) if number not in taken)
    capacity = market.capacity(spec.zone, now)
    if spec.mode is PurchaseMode.SPOT and capacity is not None and slot >= capacity:
        raise CapacityError(f"the spot market of zone {spec.zone} has no {spec.instance_type} now")
    return slot


def _live(folders: Iterable[MachineFolder], but: str) -> Iterator[tuple[Spec, dict[str, Any]]]:
    for folder in folders:
        spec, state = folder.spec(), folder.state()
        if spec is None or state is None or spec.launch_id == but:
            continue
        if state["state"] in (record.PENDING, record.RUNNING):
            yield spec, folder.boot() or {}
