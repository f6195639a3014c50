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
P12  It answers `prices` for any span in which it sold, at the price that it charges, and `rates`
     for what is billed beside machines; what it does not know is None and never 0.
P13  It resizes a stopped machine in place: same id, same disks, the new offer from then on.
P14  A volume says in which zone it lies, and a snapshot of it outlives it; a machine launched with
     a new volume and `volume_from` sees the snapshot's content.
P15  Whatever else it makes (addresses, groups, disks, templates) it lists as `leftovers` once
     nothing needs it, so that after the last machine the account is as it was before the first.
P16  It tells the account's `quotas` before a call is spent, where the cloud tells them.
P17  A region that did not answer is named in the listing, and says nothing about its machines.
P18  A call that may have taken effect, its answer being lost, raises `Ambiguous`.
P19  It passes on the `notices` that the cloud sends it about machines, each at least once.
P20  A launch with `alternatives` may make any of them; the machine's `offer_id` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from policies.world import Offer, PurchaseMode, Quota
from provisioner.errors import InvalidRequest


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
    hibernate: bool = False
    resize_in_place: bool = False
    client_tokens: bool = False
    """Whether the cloud itself makes one machine of two equal launches."""
    alternatives: bool = False
    """Whether it chooses among the alternatives of a launch itself (P20)."""
    tags: bool = True
    user_data: bool = True
    volumes: bool = False
    snapshots: bool = False
    same_host: bool = False
    """Whether its machines reach the control plane on the loopback address."""
    home_disks: bool = False
    """Whether a home is a disk that the machine has to mount, and no folder that is there."""
    own_prices: bool = False
    """Whether its owner sets its prices, so that 0 is a price like any other."""
    interruption_notice_s: float = 0.0
    """Seconds of warning before spot is taken; 0 without any."""
    listing_lag_s: float = 0.0
    """How long a new machine may be missing from a listing."""
    ended_visible_s: float = 3600.0
    list_every_s: float = 0.0
    """How far apart listings should be, so as not to be throttled; 0: each tick."""
    offers_every_s: float = 0.0
    """How far apart its offers are worth asking for; 0: each tick."""


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
    volume_from: str | None = None
    """Snapshot that a volume which does not exist yet is made from."""
    alternatives: tuple[Offer, ...] = ()
    """Offers of the same region and mode that would do as well as `offer` (P20)."""


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
    zone: str | None = None
    """Where its machine must be; None when that does not matter."""


@dataclass(frozen=True, slots=True)
class VolumeSnapshot:
    """A copy of a volume at one moment."""

    id: str
    volume_id: str
    gib: int
    created_at: datetime
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something of this installation that nothing needs any more (P15)."""

    kind: str
    """The cloud's word: `security-group`, `address`, `disk`, `launch-template`."""
    id: str


class NoticeKind(StrEnum):
    RECLAIM = "reclaim"  # the machine will be taken
    REBALANCE = "rebalance"  # that has become likelier


@dataclass(frozen=True, slots=True)
class Notice:
    """What the cloud says of a machine's future."""

    machine_id: str
    kind: NoticeKind
    at: datetime
    deadline: datetime | None = None
    """When it will be taken, where that is said."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What is billed beside machines; None where nobody knows. `at` is since when it is so."""

    volume_gib_month: PricePoint | None = None
    """A GiB of a home volume for a month of 730 hours."""
    snapshot_gib_month: PricePoint | None = None
    address_hour: PricePoint | None = None
    """A public IPv4 address."""
    egress_gib: PricePoint | None = None
    """A GiB sent to the internet, at the first priced step."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a provider holds for this installation, as of now."""

    machines: tuple[Machine, ...] = ()
    volumes: tuple[Volume, ...] = ()
    snapshots: tuple[VolumeSnapshot, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    silent_regions: frozenset[str] = frozenset()
    """Regions that did not answer: what is there is not in this listing (P17)."""
    troubles: tuple[str, ...] = ()
    """What people should see to, such as a host without room on its disk."""


class Provider(Protocol):
    """A source of machines, bound to one installation (and, for clouds, one account).

    Providers inherit from it: what only some can do is refused here.
    """

    @property
    def name(self) -> str:
        """The first part of its offers' ids: `local`, `aws`."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def offers(self) -> Iterable[Offer]:
        """What can be bought now at which price. May take as long as asking a cloud takes."""
        ...

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        """The prices in force over [start, end), oldest first, the first at or before `start`."""
        ...

    def rates(self) -> Rates: ...

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

    def quotas(self) -> Sequence[Quota]:
        """The account's limits and what is used of them (P16); none where nobody tells them."""
        return ()

    def notices(self) -> Sequence[Notice]:
        """What the cloud has said since it was asked last (P19)."""
        return ()

    def hibernate(self, machine_id: str) -> None:
        """Stop with the memory written to disk, which `start` brings back."""
        raise self._unsupported("hibernate a machine")

    def resize(self, machine_id: str, offer: Offer) -> None:
        """Give a stopped machine the type of another offer of its zone and mode (P13).

        Raises:
            InvalidRequest: it cannot be done in place (not stopped, another architecture, spot);
                a replacement can.
        """
        raise self._unsupported("resize a machine in place")

    def snapshot(self, volume_id: str, snapshot_id: str) -> VolumeSnapshot:
        """Copy a volume; `snapshot_id` is the caller's, and asking again gives the same one."""
        raise self._unsupported("make snapshots")

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot; one that is gone already is no error."""
        raise self._unsupported("delete snapshots")

    def delete_leftover(self, leftover: Leftover) -> None:
        """Delete it unless something needs it again; one that is gone already is no error."""
        raise self._unsupported(f"delete a {leftover.kind}")

    def _unsupported(self, what: str) -> InvalidRequest:
        return InvalidRequest(f"provider {self.name} cannot {what}")
