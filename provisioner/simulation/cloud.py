"""A cloud in memory and in virtual time, which fails on demand.

It obeys the provider contract as its `capabilities` declare it, no better: without client tokens a
repeated launch makes a second machine. Nothing happens between calls; each call first catches up
with what the clock says has happened since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from policies.world import Offer, PurchaseMode
from provisioner.clock import Clock
from provisioner.errors import Ambiguous, CapacityError, InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import (
    Capabilities,
    EndReason,
    LaunchRequest,
    Listing,
    Machine,
    MachineState,
    PricePoint,
    Provider,
    Rates,
    Volume,
)
from provisioner.providers.local.meter import Run, cost

S = MachineState
_T = TypeVar("_T")
_Points = Sequence[tuple[datetime, Decimal]]


@dataclass(slots=True)
class _Machine:
    seen: Machine
    request: LaunchRequest
    due: tuple[datetime, MachineState, EndReason | None] | None
    runs: list[Run] = field(default_factory=list)
    reclaim_at: datetime | None = None


class FakeCloud(Provider):
    """Implements `provisioner.providers.contract.Provider`.

    `boot_delay_s`, `stop_delay_s` and `terminate_delay_s` are how long the transitions take;
    `calls` lists each call that came in. `scarce` names offers, or prefixes of their ids, of which
    there is no capacity.
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
    ) -> None:
        self._clock = clock
        self._capabilities = capabilities
        self._name = name
        self._delays: Mapping[MachineState, float] = {
            S.RUNNING: boot_delay_s,
            S.STOPPED: stop_delay_s,
            S.TERMINATED: terminate_delay_s,
        }
        self._offers = {offer.id: offer for offer in offers}
        currency = offers[0].currency if offers else "USD"
        self._volume_price = PricePoint(clock.now(), Decimal("0.08"), currency)
        long_ago = datetime.min.replace(tzinfo=clock.now().tzinfo)
        self._prices = {one.id: [(long_ago, one.price_per_hour)] for one in offers}
        self._machines: dict[str, _Machine] = {}
        self._volumes: dict[str, Volume] = {}
        self._faults: dict[str, list[tuple[ProviderError, bool]]] = {}
        self._lock = threading.RLock()
        self.calls: list[tuple[datetime, str, str]] = []
        self.scarce: set[str] = set()

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
                points = self._points(offer.id, start, end)
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
        self._call("delete_volume", volume_id, lambda: self._delete_volume(volume_id))

    def list(self) -> Listing:
        return self._call("list", "", self._list)

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
            machine.reclaim_at = self._clock.now() + timedelta(seconds=notice_s)
            return machine.reclaim_at

    def request_of(self, machine_id: str) -> LaunchRequest:
        """What a machine was launched with, its user data above all."""
        with self._lock:
            return self._known(machine_id).request

    def set_price(self, offer_id: str, price_per_hour: Decimal) -> None:
        """Change the price of an offer from now on."""
        with self._lock:
            self._prices[offer_id].append((self._clock.now(), price_per_hour))
            offer = self._offers[offer_id]
            self._offers[offer_id] = replace(offer, price_per_hour=price_per_hour)

    def bill(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        """What each machine cost inside [start, end), up to now: unrounded."""
        with self._lock:
            now = self._catch_up()
            return {
                machine.seen.id: cost(
                    machine.runs, start, min(end, now), partial(self._points, machine.seen.offer_id)
                )
                for machine in self._machines.values()
                if any(
                    run.start < min(end, now) and start < (run.end or now) for run in machine.runs
                )
            }

    # ---- what the calls do

    def _call(self, call: str, subject: str, act: Callable[[], _T]) -> _T:
        with self._lock:
            self.calls.append((self._catch_up(), call, subject))
            queue = self._faults.get(call)
            error, takes_effect = queue.pop(0) if queue else (None, True)
            if error is not None and not takes_effect:
                raise error
            answer = act()
            if error is not None:
                raise error
            return answer

    def _launch(self, request: LaunchRequest) -> Machine:
        tokens = self._capabilities.client_tokens
        same = [m for m in self._machines.values() if m.request.launch_id == request.launch_id]
        if tokens and same:
            if _parameters(same[0].request) != _parameters(request):
                raise InvalidRequest(f"launch id {request.launch_id} has other parameters")
            return same[0].seen
        self._check(request)
        now, number = self._clock.now(), len(self._machines) + 1
        name, offer_id = f"m-{number:06d}", request.offer.id
        seen = Machine(name, request.launch_id, S.PENDING, offer_id, request.tags, created_at=now)
        if request.volume_id is not None:
            volume = self._volumes.get(request.volume_id)
            volume = volume or Volume(request.volume_id, request.volume_gib, now)
            self._volumes[volume.id] = replace(volume, attached_to=seen.id)
        self._machines[seen.id] = machine = _Machine(seen, request, None)
        self._head_for(machine, S.PENDING, S.RUNNING)
        return machine.seen

    def _check(self, request: LaunchRequest) -> None:
        offer, can = request.offer, self._capabilities
        if offer.id not in self._offers or (offer.mode is PurchaseMode.SPOT and not can.spot):
            raise InvalidRequest(f"{offer.id} is not sold here")
        if any(offer.id == one or offer.id.startswith(one + "/") for one in self.scarce):
            raise CapacityError(f"there is no {offer.id} now")
        if request.volume_id is None:
            return
        if not can.volumes:
            raise InvalidRequest("there are no volumes here")
        volume = self._volumes.get(request.volume_id)
        if volume and volume.attached_to:
            raise ProviderError(f"volume {volume.id} is attached to {volume.attached_to}")

    def _start(self, machine_id: str) -> None:
        machine = self._stoppable(machine_id)
        if machine.seen.state is S.STOPPED:
            self._head_for(machine, S.PENDING, S.RUNNING)
        elif machine.seen.state not in (S.PENDING, S.RUNNING):
            raise ProviderError(f"{machine_id} is {machine.seen.state}")

    def _stop(self, machine_id: str) -> None:
        machine = self._stoppable(machine_id)
        if machine.seen.state in (S.PENDING, S.RUNNING):
            self._head_for(machine, S.STOPPING, S.STOPPED)

    def _terminate(self, machine_id: str) -> None:
        machine = self._known(machine_id)
        if machine.seen.state not in (S.TERMINATING, S.TERMINATED):
            self._head_for(machine, S.TERMINATING, S.TERMINATED, EndReason.ASKED)

    def _delete_volume(self, volume_id: str) -> None:
        volume = self._volumes.get(volume_id)
        if volume and volume.attached_to:
            raise ProviderError(f"volume {volume_id} is attached to {volume.attached_to}")
        self._volumes.pop(volume_id, None)

    def _list(self) -> Listing:
        now = self._clock.now()
        shown = (m.seen for m in self._machines.values() if self._shows(m, now))
        return Listing(tuple(shown), tuple(self._volumes.values()))

    def _shows(self, machine: _Machine, now: datetime) -> bool:
        """Whether a listing holds it: not too new for the lag, not gone for too long."""
        seen, can = machine.seen, self._capabilities
        gone = machine.due[0] if machine.due and seen.state is S.TERMINATED else None
        if now < (seen.created_at or now) + timedelta(seconds=can.listing_lag_s):
            return False
        return gone is None or now < gone + timedelta(seconds=can.ended_visible_s)

    def _stoppable(self, machine_id: str) -> _Machine:
        machine = self._known(machine_id)
        spot = machine.request.offer.mode is PurchaseMode.SPOT
        allowed = self._capabilities.stop_of_spot if spot else self._capabilities.stop
        if not allowed or machine.seen.state in (S.TERMINATING, S.TERMINATED):
            raise InvalidRequest(f"{machine_id} cannot be stopped or started")
        return machine

    def _known(self, machine_id: str) -> _Machine:
        """A machine by its id, or by its launch id once the listing shows it (P5)."""
        now = self._catch_up()
        found = self._machines.get(machine_id)
        if found is None:
            same = [m for m in self._machines.values() if m.request.launch_id == machine_id]
            found = next((m for m in same if self._shows(m, now)), None)
        if found is None:
            raise NotFound(f"there is no machine {machine_id}")
        return found

    # ---- the passing of time

    def _head_for(
        self, machine: _Machine, on_the_way: S, goal: S, reason: EndReason | None = None
    ) -> None:
        machine.seen = replace(machine.seen, state=on_the_way)
        machine.due = (self._clock.now() + timedelta(seconds=self._delays[goal]), goal, reason)

    def _catch_up(self) -> datetime:
        """Let happen what was due by now, each thing at its own time."""
        now = self._clock.now()
        for machine in self._machines.values():
            reclaim_at = machine.reclaim_at
            if machine.due and machine.due[0] <= min(now, reclaim_at or now):
                self._arrive(machine, *machine.due)
            if reclaim_at is not None and reclaim_at <= now:
                self._arrive(machine, reclaim_at, S.TERMINATED, EndReason.RECLAIMED)
        return now

    def _arrive(self, machine: _Machine, at: datetime, goal: S, reason: EndReason | None) -> None:
        seen = machine.seen
        if seen.state in (S.TERMINATED, goal):
            return
        if goal is S.RUNNING:
            machine.runs.append(Run(at, None))
            machine.seen = replace(seen, state=goal, run_started_at=at, run_ended_at=None)
            return
        ended = seen.run_ended_at
        if machine.runs and machine.runs[-1].end is None:
            machine.runs[-1] = Run(machine.runs[-1].start, at)
            ended = at
        machine.seen = replace(seen, state=goal, run_ended_at=ended, end_reason=reason)
        machine.due = (at, goal, reason)
        if goal is S.TERMINATED and machine.request.volume_id is not None:
            volume = self._volumes.get(machine.request.volume_id)
            if volume and volume.attached_to == seen.id:
                self._volumes[volume.id] = replace(volume, attached_to=None)

    # ---- money

    def _points(self, offer_id: str, start: datetime, end: datetime) -> _Points:
        history = [point for point in self._prices[offer_id] if point[0] < end]
        current = [point for point in history if point[0] <= start][-1]
        return ((start, current[1]), *(point for point in history if point[0] > start))


def _parameters(request: LaunchRequest) -> LaunchRequest:
    """All that two launches must agree in; the price of an offer may have changed between them."""
    return replace(request, offer=replace(request.offer, price_per_hour=Decimal(0)))
