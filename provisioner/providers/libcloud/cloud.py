"""What the adapter asks of a cloud, and the values that both sides speak in.

A `Cloud` is one module of `clouds/`: it turns each question into one or a few requests and the
answers into the values below. It decides nothing, keeps nothing but what never changes, waits for
nothing, and belongs to one thread (see `wire.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from policies.world import PurchaseMode, Quota
from provisioner.providers.contract import EndReason, Leftover, MachineState
from provisioner.providers.libcloud.marks import Marks, Owner
from provisioner.providers.libcloud.profile import Profile
from provisioner.providers.libcloud.settings import CloudSettings


@dataclass(frozen=True, slots=True)
class Size:
    """A type of machine, as the cloud sells it."""

    name: str
    cpus: float
    memory_gib: float
    zones: Mapping[str, tuple[str, ...]]
    """By region, where it can be had."""
    gpus: int = 0
    gpu_model: str | None = None
    prices_per_hour: Mapping[str, Decimal] = field(default_factory=dict)
    """By region, on demand, in USD; empty where the API states none."""
    spot: bool = True
    """Whether it is sold as spot where the cloud has spot at all."""


@dataclass(frozen=True, slots=True)
class Server:
    """A machine as the cloud shows it."""

    id: str
    state: MachineState
    size: str
    region: str
    zone: str
    marks: Marks
    spot: bool = False
    created_at: datetime | None = None
    run_started_at: datetime | None = None
    """When its current or last run began; None where the cloud does not say."""
    run_ended_at: datetime | None = None
    failed: str = ""
    """Why it will never run, though it is still there: it must be deleted."""
    confirm: bool = False
    """Whether a resize is done and must be confirmed before it counts as done."""
    end_reason: EndReason | None = None
    message: str = ""
    body: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The cloud's own words, for a later call about it."""

    @property
    def mode(self) -> PurchaseMode:
        return PurchaseMode.SPOT if self.spot else PurchaseMode.ON_DEMAND

    def offer_id(self, provider: str) -> str:
        """Of what it is now, so that it is right after a resize too."""
        return f"{provider}/{self.region}/{self.zone}/{self.size}/{self.mode}"


@dataclass(frozen=True, slots=True)
class NewServer:
    """A machine to be made."""

    launch_id: str
    name: str
    """Holds the launch id; letters, digits and dashes, 64 at most."""
    size: str
    region: str
    zone: str
    spot: bool
    image: str
    user_data: str
    marks: Marks
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Disk:
    """A home volume as the cloud shows it."""

    id: str
    region: str
    zone: str
    marks: Marks
    gib: int
    created_at: datetime
    server_id: str | None = None
    ready: bool = True
    """Whether it could be attached now, were it attached to nothing."""
    body: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class NewDisk:
    """A home volume to be made."""

    name: str
    region: str
    zone: str
    gib: int
    marks: Marks
    copy: DiskCopy | None = None


@dataclass(frozen=True, slots=True)
class DiskCopy:
    """A snapshot of a home volume."""

    id: str
    region: str
    marks: Marks
    gib: int
    created_at: datetime
    complete: bool = True


class Cloud(ABC):
    """One endpoint of one cloud, for one thread. All calls raise the provider's errors."""

    profile: ClassVar[Profile]

    def __init__(self, settings: CloudSettings, owner: Owner, region: str) -> None:
        """`region` is empty where one endpoint answers for all of them."""
        self.settings = settings
        self.owner = owner
        self.region = region

    # ---- what there is

    @abstractmethod
    def servers(self) -> Iterable[Server]:
        """All of the owner's machines at this endpoint, page by page."""

    @abstractmethod
    def server(self, id: str) -> Server | None:
        """One machine, whosever it is; None when there is none."""

    @abstractmethod
    def sizes(self) -> Iterable[Size]:
        """What can be had in the regions of the settings."""

    def disks(self) -> Iterable[Disk]:
        return ()

    def copies(self) -> Iterable[DiskCopy]:
        return ()

    def leftovers(self) -> Iterable[Leftover]:
        """What was made beside machines and disks, and nothing needs any more."""
        return ()

    def quotas(self) -> Sequence[Quota]:
        return ()

    def end_of(self, server: Server) -> tuple[EndReason, str] | None:
        """Why a machine is not listed any more that nobody here ended, where the cloud says it."""
        return None

    # ---- what can be done with machines

    @abstractmethod
    def create(self, new: NewServer) -> Server: ...

    @abstractmethod
    def delete(self, server: Server) -> None: ...

    @abstractmethod
    def start(self, server: Server) -> None: ...

    @abstractmethod
    def stop(self, server: Server) -> None:
        """So that it is not billed any more, where the cloud can."""

    @abstractmethod
    def resize(self, server: Server, size: str) -> None:
        """Of a stopped one."""

    def confirm(self, server: Server) -> None:
        """That a resize may be finished."""
        raise NotImplementedError(self.profile.driver)

    # ---- what can be done with disks

    @abstractmethod
    def create_disk(self, new: NewDisk) -> Disk: ...

    @abstractmethod
    def delete_disk(self, disk: Disk) -> None: ...

    @abstractmethod
    def attach(self, server: Server, disk: Disk) -> None:
        """To a running one."""

    def copy(self, disk: Disk, name: str, marks: Marks) -> DiskCopy:
        raise NotImplementedError(self.profile.driver)

    def delete_copy(self, copy: DiskCopy) -> None:
        raise NotImplementedError(self.profile.driver)

    def delete_leftover(self, leftover: Leftover) -> None:
        raise NotImplementedError(self.profile.driver)
