"""A cloud in memory, to try the adapter on what no recorded answer can show: what comes later.

It has no tokens, forgets machines at once and says nothing of runs, as most clouds do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import ClassVar

import pytest

from provisioner.clock import ManualClock
from provisioner.errors import NotFound, ProviderError
from provisioner.providers.contract import EndReason, MachineState
from provisioner.providers.libcloud.cloud import (
    Cloud,
    Disk,
    DiskCopy,
    NewDisk,
    NewServer,
    Server,
    Size,
)
from provisioner.providers.libcloud.clouds import registry
from provisioner.providers.libcloud.marks import Marks, Owner
from provisioner.providers.libcloud.profile import Profile, Support
from provisioner.providers.libcloud.settings import CloudSettings

S = MachineState
PROFILE = Profile(
    driver="paper",
    title="Paper",
    support=Support.EXPERIMENTAL,
    account={},
    secrets={},
    refusals=(),
    regional=True,
    zones=True,
    spot=True,
    default_image="paper",
    listing_lag_s=10.0,
)


@dataclass
class Sheet:
    """All that the cloud holds, in all of its regions."""

    clock: ManualClock
    servers: dict[str, Server] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    copies: dict[str, DiskCopy] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    errors: dict[str, list[ProviderError]] = field(default_factory=dict)
    """What the next calls of a name raise."""
    hidden: set[str] = field(default_factory=set)
    """Servers that listings do not show yet."""
    silent: set[str] = field(default_factory=set)
    ends: dict[str, tuple[EndReason, str]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def become(self, id: str, state: MachineState, **changes: object) -> None:
        with self.lock:
            self.servers[id] = replace(self.servers[id], state=state, **changes)  # type: ignore[arg-type]

    def lose(self, id: str) -> None:
        with self.lock:
            del self.servers[id]

    def count(self, call: str) -> int:
        return self.calls.count(call)


class PaperCloud(Cloud):
    profile: ClassVar[Profile] = PROFILE
    sheet: ClassVar[Sheet]

    def servers(self) -> Iterable[Server]:
        self._called("servers")
        return [one for one in self.sheet.servers.values() if self._shows(one)]

    def server(self, id: str) -> Server | None:
        self._called("server")
        found = self.sheet.servers.get(id)
        return found if found is not None and self._shows(found) else None

    def sizes(self) -> Iterable[Size]:
        self._called("sizes")
        zones = {self.region: (f"{self.region}a", f"{self.region}b")}
        price = {self.region: Decimal("0.10")}
        return [Size("small", 2, 4, zones, prices_per_hour=price), Size("large", 8, 16, zones)]

    def disks(self) -> Iterable[Disk]:
        return [one for one in self.sheet.disks.values() if self._has(one)]

    def copies(self) -> Iterable[DiskCopy]:
        return [one for one in self.sheet.copies.values() if self._has(one)]

    def end_of(self, server: Server) -> tuple[EndReason, str] | None:
        return self.sheet.ends.get(server.id)

    def create(self, new: NewServer) -> Server:
        self._called("create")
        with self.sheet.lock:
            made = Server(
                id=f"s-{len(self.sheet.servers) + 1}",
                state=S.PENDING,
                size=new.size,
                region=new.region,
                zone=new.zone,
                marks=new.marks,
                spot=new.spot,
                created_at=self.sheet.clock.now(),
            )
            self.sheet.servers[made.id] = made
        return made

    def delete(self, server: Server) -> None:
        self._called("delete")
        if server.id not in self.sheet.servers:
            raise NotFound(server.id)

    def start(self, server: Server) -> None:
        self._called("start")

    def stop(self, server: Server) -> None:
        self._called("stop")

    def resize(self, server: Server, size: str) -> None:
        self._called("resize")

    def confirm(self, server: Server) -> None:
        self._called("confirm")

    def create_disk(self, new: NewDisk) -> Disk:
        self._called("create_disk")
        with self.sheet.lock:
            id = f"d-{len(self.sheet.disks) + 1}"
            now = self.sheet.clock.now()
            self.sheet.disks[id] = Disk(id, new.region, new.zone, new.marks, new.gib, now)
        return self.sheet.disks[id]

    def delete_disk(self, disk: Disk) -> None:
        self._called("delete_disk")
        del self.sheet.disks[disk.id]

    def attach(self, server: Server, disk: Disk) -> None:
        self._called("attach")
        self.sheet.disks[disk.id] = replace(disk, server_id=server.id)

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        self._called("copy")
        now = self.sheet.clock.now()
        self.sheet.copies[name] = DiskCopy(name, disk.region, marks, disk.gib, now)
        return self.sheet.copies[name]

    def delete_copy(self, copy: DiskCopy) -> None:
        del self.sheet.copies[copy.id]

    def _called(self, call: str) -> None:
        with self.sheet.lock:
            self.sheet.calls.append(call)
            if self.region in self.sheet.silent:
                raise ProviderError(f"{self.region} is silent")
            if self.sheet.errors.get(call):
                raise self.sheet.errors[call].pop(0)

    def _shows(self, server: Server) -> bool:
        return self._has(server) and server.id not in self.sheet.hidden

    def _has(self, thing: Server | Disk | DiskCopy) -> bool:
        return thing.region == self.region and self.owner.owns(thing.marks)


@contextmanager
def paper(clock: ManualClock) -> Iterator[Sheet]:
    """The cloud among the others, while the block lasts."""
    sheet = Sheet(clock)
    kind = type("Paper", (PaperCloud,), {"sheet": sheet})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.CLOUDS, "paper", kind)  # type: ignore[arg-type]
        yield sheet


def settings(**changes: object) -> CloudSettings:
    values: dict[str, object] = {
        "name": "paper",
        "driver": "paper",
        "regions": ("r1", "r2"),
        "prices": {"large": "0.40"},
        "spot_prices": {"*": "0.03"},
        "price_per_gib_month": "0.08",
    }
    return CloudSettings(**(values | changes))  # type: ignore[arg-type]


OWNER = Owner("test", "paper")
