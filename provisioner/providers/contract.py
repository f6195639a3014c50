"""The provider contract: what a provider of machines must do, and nothing beyond it.

P1   It launches at most one machine for one `launch_id`, however often it is asked, and gives
     the same machine back; other parameters under the same id are an `InvalidRequest`.
P2   It tags each machine with the installation, the launch id and the given tags, from the moment
     it can be listed.
P3   It lists exactly the machines of its installation, ended ones for at least `ended_visible_s`.
P4   It says `TERMINATED` only of machines that run nothing and cost nothing any more.
P5   Terminate, stop and start are idempotent; an unknown machine is `NotFound`. They take the
     machine's id or its launch id.
P6   It keeps a volume until `delete_volume`; a machine launched with it sees its content, at most
     one machine at a time.
P7   It raises only errors of the provider tree in `provisioner.errors`, never a library's own.
P8   It never waits for a machine to finish a transition: calls return when the request is accepted.
P9   It reports when a machine's current run began and its last run ended, as the bill counts them.
P10  It declares in `capabilities` what it cannot do; a call it does not support is an
     `InvalidRequest`.
P11  It may be called from several threads at once.
P12  It answers `prices` for any span in which it sold, at the price that it charges, and
     `volume_price`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from policies.world import Offer, PurchaseMode


class MachineState(StrEnum):
    """A machine's state in the provider's own words, reduced to what matters."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class EndReason(StrEnum):
    """Why the provider says a machine ended, where it knows."""

    ASKED = "asked"  # a terminate call
    RECLAIMED = "reclaimed"  # the spot market took it back
    FAILED = "failed"  # its boot or host failed
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do. False means: the contract suite expects `InvalidRequest`."""

    spot: bool = False
    stop: bool = False
    stop_of_spot: bool = False
    resize_in_place: bool = False
    client_tokens: bool = False
    tags: bool = True
    user_data: bool = True
    volumes: bool = False
    snapshots: bool = False
    interruption_notice_s: float = 0.0
    """Seconds of warning before spot is taken; 0 without any."""
    listing_lag_s: float = 0.0
    """How long a new machine may be missing from a listing."""
    ended_visible_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One machine to be made."""

    launch_id: str
    """Client token, name and tag; see `provisioner.ids.launch_id`."""
    offer: Offer
    user_data: str
    """The bootstrap script, run once as the machine's first boot."""
    tags: tuple[tuple[str, str], ...] = ()
    volume_id: str | None = None
    """Home volume to attach; created empty when it does not exist yet."""
    volume_gib: int = 10


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as the provider lists it."""

    id: str
    launch_id: str
    state: MachineState
    offer_id: str
    tags: tuple[tuple[str, str], ...] = ()
    created_at: datetime | None = None
    run_started_at: datetime | None = None
    """When the current (or last) run began to be billed."""
    run_ended_at: datetime | None = None
    """When the last run stopped being billed; None while it runs."""
    end_reason: EndReason | None = None
    message: str = ""
    """The provider's own words, for people."""


@dataclass(frozen=True, slots=True)
class PricePoint:
    """The price of an offer (of an hour) or of storage (of a GiB-month) from `at` on."""

    at: datetime
    price: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A home volume as the provider lists it."""

    id: str
    gib: int
    created_at: datetime
    attached_to: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a provider holds for this installation, as of now."""

    machines: tuple[Machine, ...] = ()
    volumes: tuple[Volume, ...] = field(default=())


class Provider(Protocol):
    """A source of machines, bound to one installation (and, for clouds, one account)."""

    @property
    def name(self) -> str:
        """The first part of its offers' ids: `local`, `aws`."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def offers(self) -> Sequence[Offer]:
        """What can be bought now at which price. Reading it costs nothing."""
        ...

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        """The prices in force over [start, end), oldest first, the first at or before `start`."""
        ...

    def volume_price(self) -> PricePoint | None:
        """What a GiB of a home volume costs for a month of 730 hours; None when nobody knows.

        `at` is since when it has been so.
        """
        ...

    def launch(self, request: LaunchRequest) -> Machine:
        """Make the machine of `request.launch_id`, or give back the one that is there (P1)."""
        ...

    def start(self, machine_id: str) -> None: ...

    def stop(self, machine_id: str) -> None: ...

    def terminate(self, machine_id: str) -> None: ...

    def delete_volume(self, volume_id: str) -> None:
        """Delete a volume; one that is gone already is no error."""
        ...

    def list(self) -> Listing: ...
