"""A cloud in memory and in virtual time, which fails on demand.

It obeys the provider contract as its `capabilities` declare it, no better: without client tokens a
repeated launch makes a second machine. Nothing happens between calls; each call first catches up
with what the clock says has happened since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from policies.world import Offer, PurchaseMode, Quota
from provisioner.clock import Clock
from provisioner.errors import (
    Ambiguous,
    CapacityError,
    InvalidRequest,
    ProviderError,
    QuotaError,
)
from provisioner.providers.contract import (
    Capabilities,
    EndReason,
    LaunchRequest,
    Leftover,
    Listing,
    Machine,
    MachineState,
    Notice,
    NoticeKind,
    PricePoint,
    Provider,
    Rates,
    VolumeSnapshot,
)
from provisioner.simulation.disks import Disks
from provisioner.simulation.machines import Machines, Record
from provisioner.simulation.price_history import PriceHistory

S = MachineState
_USES_NO_QUOTA = (S.STOPPING, S.STOPPED, S.TERMINATED)
_T = TypeVar("_T")


class FakeCloud(Provider):
    """Implements `provisioner.providers.contract.Provider`.

    `boot_delay_s`, `stop_delay_s` and `terminate_delay_s` are how long the transitions take;
    `calls` lists each call that came in. `scarce` names offers, or prefixes of their ids, of which
    there is no capacity; `silent` names regions that do not answer; `limits` are the account's
    quotas, whose use is counted here. A cloud that `litters` makes an address for each machine and
    leaves it behind; one that is `zoned` attaches a volume in its own zone only.
    """

    def __init__(
        self,
        clock: Clock,
        capabilities: Capabilities,
        offers: Sequence[Offer],
        *,
        name: str = "fake",
        boot_delay_s: float = 30.0,
        stop_delay_s: float = 20.0,
        terminate_delay_s: float = 20.0,
        zoned: bool = False,
        litters: bool = False,
    ) -> None:
        self._clock = clock
        self._capabilities = capabilities
        self._name = name
        self._disks = Disks(zoned=zoned)
        delays_s = {
            S.RUNNING: boot_delay_s,
            S.STOPPED: stop_delay_s,
            S.TERMINATED: terminate_delay_s,
        }
        self._machines = Machines(clock, delays_s, self._disks.detach)
        self._offers = {offer.id: offer for offer in offers}
        currency = offers[0].currency if offers else "USD"
        self._volume_price = PricePoint(clock.now(), Decimal("0.08"), currency)
        long_ago = datetime.min.replace(tzinfo=clock.now().tzinfo)
        self._prices = PriceHistory(offers, long_ago)
        self._litters = litters
        self._litter: dict[str, Leftover] = {}
        self._notices: list[Notice] = []
        self._faults: dict[str, list[tuple[ProviderError, bool]]] = {}
        self._lock = threading.RLock()
        self.calls: list[tuple[datetime, str, str]] = []
        self.scarce: set[str] = set()
        self.silent: set[str] = set()
        self.limits: list[Quota] = []

    # ---- the contract

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def offers(self) -> Sequence[Offer]:
        return self._call("offers", "", lambda: tuple(self._offers.values()))

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        for offer in self._offers.values():
            if (offer.instance_type, offer.zone, offer.mode) == (instance_type, zone, mode):
                points = self._prices.points(offer.id, start, end)
                return tuple(PricePoint(at, price, offer.currency) for at, price in points)
        raise InvalidRequest(f"there is no {instance_type} in {zone} as {mode}")

    def rates(self) -> Rates:
        return Rates(self._volume_price) if self._capabilities.volumes else Rates()

    def launch(self, request: LaunchRequest) -> Machine:
        return self._call("launch", request.launch_id, lambda: self._launch(request))

    def start(self, machine_id: str) -> None:
        self._call("start", machine_id, lambda: self._start(machine_id))

    def stop(self, machine_id: str) -> None:
        self._call("stop", machine_id, lambda: self._stop(machine_id))

    def terminate(self, machine_id: str) -> None:
        self._call("terminate", machine_id, lambda: self._terminate(machine_id))

    def delete_volume(self, volume_id: str) -> None:
        self._call("delete_volume", volume_id, lambda: self._disks.delete(volume_id))

    def list(self) -> Listing:
        return self._call("list", "", self._list)

    def quotas(self) -> Sequence[Quota]:
        return self._call("quotas", "", lambda: [self._counted(quota) for quota in self.limits])

    def notices(self) -> Sequence[Notice]:
        with self._lock:
            told, self._notices = self._notices, []
            return told

    def hibernate(self, machine_id: str) -> None:
        if not self._capabilities.hibernate:
            raise self._unsupported("hibernate a machine")
        self._call("hibernate", machine_id, lambda: self._stop(machine_id))

    def resize(self, machine_id: str, offer: Offer) -> None:
        self._call("resize", machine_id, lambda: self._resize(machine_id, offer))

    def snapshot(self, volume_id: str, snapshot_id: str) -> VolumeSnapshot:
        if not self._capabilities.snapshots:
            raise self._unsupported("make snapshots")
        now = self._clock.now()
        act = partial(self._disks.snapshot, volume_id, snapshot_id, now)
        return self._call("snapshot", volume_id, act)

    def delete_snapshot(self, snapshot_id: str) -> None:
        if not self._capabilities.snapshots:
            raise self._unsupported("delete snapshots")
        self._call("delete_snapshot", snapshot_id, lambda: self._disks.delete_snapshot(snapshot_id))

    def delete_leftover(self, leftover: Leftover) -> None:
        self._call("delete_leftover", leftover.id, lambda: self._delete_leftover(leftover))

    # ---- faults

    def fail_next(self, call: str, error: ProviderError, *, takes_effect: bool = False) -> None:
        """Make the next `call` raise `error`, having taken effect or not; several queue up."""
        self._faults.setdefault(call, []).append((error, takes_effect))

    def lose_reply(self, call: str) -> None:
        """Make the next `call` take effect, and its caller not know it."""
        self.fail_next(call, Ambiguous(f"no reply to {call}"), takes_effect=True)

    def reclaim(self, machine_id: str, notice_s: float = 0.0) -> datetime:
        """Have the market take a spot machine, `notice_s` from now; returns when."""
        with self._lock:
            machine = self._known(machine_id)
            now = self._clock.now()
            at = now + timedelta(seconds=notice_s)
            self._machines.reclaim(machine, at)
            if notice_s > 0:
                self._notices.append(Notice(machine_id, NoticeKind.RECLAIM, now, at))
            return at

    def forget(self, machine_id: str) -> None:
        """Have a machine vanish as if it had never been made."""
        with self._lock:
            self._machines.forget(machine_id)
            self._disks.detach(machine_id)

    def request_of(self, machine_id: str) -> LaunchRequest:
        """What a machine was launched with, its user data above all."""
        with self._lock:
            return self._known(machine_id).request

    def set_price(self, offer_id: str, price_per_hour: Decimal) -> None:
        """Change the price of an offer from now on."""
        with self._lock:
            self._prices.change(offer_id, price_per_hour, self._clock.now())
            offer = self._offers[offer_id]
            self._offers[offer_id] = replace(offer, price_per_hour=price_per_hour)

    def bill(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        """What each machine cost inside [start, end), up to now: unrounded."""
        with self._lock:
            now = self._machines.catch_up()
            until = min(end, now)
            return {
                machine.seen.id: self._prices.cost(machine.runs, start, until)
                for machine in self._machines
                if any(run.start < until and start < (run.end or now) for _, run in machine.runs)
            }

    # ---- what the calls do

    def _call(self, call: str, subject: str, act: Callable[[], _T]) -> _T:
        with self._lock:
            self.calls.append((self._machines.catch_up(), call, subject))
            queue = self._faults.get(call)
            error, takes_effect = queue.pop(0) if queue else (None, True)
            if error is not None and not takes_effect:
                raise error
            answer = act()
            if error is not None:
                raise error
            return answer

    def _launch(self, request: LaunchRequest) -> Machine:
        same = self._machines.of_launch(request.launch_id)
        if self._capabilities.client_tokens and same:
            if _parameters(same[0].request) != _parameters(request):
                raise InvalidRequest(f"launch id {request.launch_id} has other parameters")
            return same[0].seen
        offer = self._check(request)
        now, name = self._clock.now(), f"m-{len(self._machines) + 1:06d}"
        seen = Machine(name, request.launch_id, S.PENDING, offer.id, request.tags, created_at=now)
        machine = Record(seen, request)
        self._machines.add(machine)
        self._disks.attach(request, name, now)
        if self._litters:
            self._litter[name] = Leftover("address", f"addr-{name}")
        return machine.seen

    def _check(self, request: LaunchRequest) -> Offer:
        """The offer to make it of.

        Raises:
            ProviderError: nothing can be made of the request.
        """
        can = self._capabilities
        choice = (request.offer, *(request.alternatives if can.alternatives else ()))
        for offer in choice:
            sold = offer.id in self._offers and (can.spot or offer.mode is not PurchaseMode.SPOT)
            if not sold:
                raise InvalidRequest(f"{offer.id} is not sold here")
        if request.volume_id is not None and not can.volumes:
            raise InvalidRequest("there are no volumes here")
        self._disks.check(request)
        found = next((offer for offer in choice if not self._is_scarce(offer)), None)
        if found is None:
            raise CapacityError(f"there is no {request.offer.id} now")
        for quota in map(self._counted, self.limits):
            if quota.needed(found) > quota.limit - quota.used:
                raise QuotaError(f"{quota.name} is {quota.limit:g}, and {quota.used:g} are used")
        return found

    def _is_scarce(self, offer: Offer) -> bool:
        return any(offer.id == one or offer.id.startswith(one + "/") for one in self.scarce)

    def _counted(self, quota: Quota) -> Quota:
        live = (m for m in self._machines if m.seen.state not in _USES_NO_QUOTA)
        return replace(quota, used=sum(quota.needed(self._offers[m.seen.offer_id]) for m in live))

    def _start(self, machine_id: str) -> None:
        machine = self._stoppable(machine_id)
        if machine.seen.state is S.STOPPED:
            self._machines.head_for(machine, S.PENDING, S.RUNNING)
        elif machine.seen.state not in (S.PENDING, S.RUNNING):
            raise ProviderError(f"{machine_id} is {machine.seen.state}")

    def _stop(self, machine_id: str) -> None:
        machine = self._stoppable(machine_id)
        if machine.seen.state in (S.PENDING, S.RUNNING):
            self._machines.head_for(machine, S.STOPPING, S.STOPPED)

    def _terminate(self, machine_id: str) -> None:
        machine = self._known(machine_id)
        if machine.seen.state not in (S.TERMINATING, S.TERMINATED):
            self._machines.head_for(machine, S.TERMINATING, S.TERMINATED, EndReason.ASKED)

    def _resize(self, machine_id: str, offer: Offer) -> None:
        machine = self._known(machine_id)
        if not self._capabilities.resize_in_place or machine.seen.state is not S.STOPPED:
            raise InvalidRequest(f"{machine_id} cannot be resized")
        before = self._offers[machine.seen.offer_id]
        if offer.id not in self._offers or (offer.zone, offer.mode) != (before.zone, before.mode):
            raise InvalidRequest(f"{machine_id} cannot become {offer.id}")
        machine.seen = replace(machine.seen, offer_id=offer.id)

    def _delete_leftover(self, leftover: Leftover) -> None:
        for machine_id, one in list(self._litter.items()):
            if one == leftover and self._machines[machine_id].seen.state is S.TERMINATED:
                del self._litter[machine_id]

    def _list(self) -> Listing:
        now = self._clock.now()
        heard = [m for m in self._machines if m.request.offer.region not in self.silent]
        return Listing(
            tuple(m.seen for m in heard if self._shows(m, now)),
            self._disks.volumes(),
            self._disks.snapshots(),
            tuple(
                leftover
                for machine_id, leftover in self._litter.items()
                if self._machines[machine_id].seen.state is S.TERMINATED
            ),
            frozenset(self.silent),
        )

    def _shows(self, machine: Record, now: datetime) -> bool:
        """Whether a listing holds it: not too new for the lag, not gone for too long."""
        seen, can = machine.seen, self._capabilities
        gone = machine.due[0] if machine.due and seen.state is S.TERMINATED else None
        if now < (seen.created_at or now) + timedelta(seconds=can.listing_lag_s):
            return False
        return gone is None or now < gone + timedelta(seconds=can.ended_visible_s)

    def _stoppable(self, machine_id: str) -> Record:
        machine = self._known(machine_id)
        spot = machine.request.offer.mode is PurchaseMode.SPOT
        allowed = self._capabilities.stop_of_spot if spot else self._capabilities.stop
        if not allowed or machine.seen.state in (S.TERMINATING, S.TERMINATED):
            raise InvalidRequest(f"{machine_id} cannot be stopped or started")
        return machine

    def _known(self, machine_id: str) -> Record:
        """A machine by its id, or by its launch id once the listing shows it (P5)."""
        now = self._machines.catch_up()
        same = self._machines.of_launch(machine_id)
        found = next((m for m in same if self._shows(m, now)), None)
        return found or self._machines[machine_id]


def _parameters(request: LaunchRequest) -> LaunchRequest:
    """All that two launches must agree in; the price of an offer may have changed between them."""
    return replace(request, offer=replace(request.offer, price_per_hour=Decimal(0)))
