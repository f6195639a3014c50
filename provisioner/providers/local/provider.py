"""The embedded provider: machines that are folders with an init process of their own, on this host.

The provider keeps nothing in memory: all is in the root folder, so that any number of control
planes, one after the other or at once, see and control the same machines. It never waits for a
machine; what it asks for is carried out by the machine's init, and where that is dead, by the next
call that notices.

    root/machines/<launch id>/   see the docstring of the `machine` package
    root/volumes/<volume id>/    volume.json and home/
    root/meter/                  one file of starts and ends for each machine; never deleted
    root/lock                    held by whoever makes, starts or settles a machine
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from policies.world import Offer, PurchaseMode
from provisioner.clock import Clock
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.contract import (
    Capabilities,
    LaunchRequest,
    Listing,
    Machine,
    MachineState,
    PricePoint,
    Provider,
    Rates,
)
from provisioner.providers.local.capacity import Sold
from provisioner.providers.local.failures import reported
from provisioner.providers.local.fleet import (
    Fleet,
    attached_already,
    check_id,
    check_request,
    check_same,
    fingerprint,
)
from provisioner.providers.local.host import Host
from provisioner.providers.local.launcher import Launcher, PlainLauncher
from provisioner.providers.local.machine.files import remove_tree, write_json
from provisioner.providers.local.machine_folder import Spec
from provisioner.providers.local.market import Market
from provisioner.providers.local.meter import Meter
from provisioner.providers.local.offers import NAME, machine_types, offers
from provisioner.providers.local.settings import LocalSettings
from provisioner.providers.local.settling import settle
from provisioner.providers.local.tariff import Tariff

_LONGEST_NOTICE_S = 86400.0


class LocalProvider(Provider):
    """Implements `provisioner.providers.contract.Provider` on the host that it runs on.

    Raises `InvalidError` when a trace of the spot market cannot be used. `clock` tells the prices
    of now and the times of the records; machines themselves live by the host's clock.
    """

    def __init__(
        self,
        root: Path,
        installation: str,
        clock: Clock,
        settings: LocalSettings | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self._root = Path(os.path.abspath(root))
        self._installation = installation
        self._clock = clock
        self._settings = settings or LocalSettings()
        self._market = Market.load(self._settings.market)
        self._tariff = Tariff(self._root, self._settings, self._market, clock)
        self._meter = Meter(self._root, installation, self._tariff)
        launcher = launcher or PlainLauncher(enforce=self._settings.limits == "enforce")
        self._fleet = Fleet(
            self._root, installation, clock, self._settings, self._market, self._tariff, launcher
        )

    @property
    def name(self) -> str:
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            spot=True,
            stop=True,
            client_tokens=True,
            volumes=True,
            same_host=True,
            own_prices=True,
            interruption_notice_s=self._settings.market.notice_s,
            ended_visible_s=self._settings.ended_visible_s,
        )

    @reported
    def offers(self) -> Sequence[Offer]:
        types = machine_types(self._fleet.host)
        return offers(types, self._settings, self._market, self._clock.now())

    @reported
    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        points = self._tariff.points(instance_type, zone, mode, start, end)
        return tuple(PricePoint(at, price, self._settings.currency) for at, price in points)

    @reported
    def rates(self) -> Rates:
        rates = self._tariff.rates()[-1]
        price = rates.settings.price_per_volume_gib_month
        return Rates(volume_gib_month=PricePoint(rates.since, price, self._settings.currency))

    @reported
    def launch(self, request: LaunchRequest) -> Machine:
        check_request(request)
        with self._fleet.locked():
            folder = self._fleet.folder(request.launch_id)
            known = folder.spec()
            if known is not None:
                check_same(request, self._installation, known.fingerprint)
                self._fleet.complete(folder, known)
            elif (former := self._fleet.former(request)) is not None:
                return former
            else:
                self._fleet.make(folder, self._spec(request), request)
            machine = folder.machine()
        if machine is None:
            raise ProviderError(f"the folder of machine {request.launch_id} has vanished")
        return machine

    @reported
    def start(self, machine_id: str) -> None:
        with self._fleet.locked():
            folder, spec, state, shown = self._fleet.settled(machine_id)
            if spec.mode is PurchaseMode.SPOT:
                raise InvalidRequest(f"machine {machine_id} is spot and cannot be started again")
            if shown in (MachineState.PENDING, MachineState.RUNNING):
                self._fleet.complete(folder, spec)
                return
            if shown is not MachineState.STOPPED:
                raise _wrong_state(machine_id, shown, "started")
            self._fleet.boot_again(folder, spec, state)

    @reported
    def stop(self, machine_id: str) -> None:
        with self._fleet.locked():
            folder, spec, state, shown = self._fleet.settled(machine_id)
            if spec.mode is PurchaseMode.SPOT:
                raise InvalidRequest(
                    f"machine {machine_id} is spot and cannot be stopped",
                    remedy="Terminate it instead.",
                )
            if shown in (MachineState.STOPPED, MachineState.STOPPING):
                return
            if shown not in (MachineState.PENDING, MachineState.RUNNING):
                raise _wrong_state(machine_id, shown, "stopped")
            folder.request(state["run"], "stop")
            settle(folder, self._clock.now())

    @reported
    def terminate(self, machine_id: str) -> None:
        with self._fleet.locked():
            folder, _, state, shown = self._fleet.settled(machine_id)
            if shown not in (MachineState.TERMINATED, MachineState.TERMINATING):
                folder.request(state["run"], "terminate")
                settle(folder, self._clock.now())

    @reported
    def delete_volume(self, volume_id: str) -> None:
        check_id("volume id", volume_id)
        with self._fleet.locked():
            holder = self._fleet.attached().get(volume_id)
            if holder is not None:
                raise attached_already(volume_id, holder)
            removed = self._fleet.volumes.retire(volume_id, self._clock.now())
        if removed is not None:
            remove_tree(str(removed))

    @reported
    def list(self) -> Listing:
        self._fleet.record_prices()
        machines = []
        for folder in self._fleet.folders():
            machine = self._fleet.looked_at(folder)
            if machine is not None:
                machines.append(machine)
        return Listing(tuple(machines), self._fleet.volumes.list(self._fleet.attached()))

    @reported
    def sold(self) -> Sold:
        """What the machines of all installations hold of this host."""
        return Sold.to(self._fleet.folders())

    @property
    def host(self) -> Host:
        """What the machines are cut from."""
        return self._fleet.host

    @reported
    def rehearse_reclaim(self, machine_id: str, notice_s: float) -> None:
        """Have a spot machine taken back as the market does it, `notice_s` seconds from now.

        With 0 everything in it is killed at once, without notice. Raises `InvalidRequest` when it
        is not spot or does not run.
        """
        if not 0 <= notice_s < _LONGEST_NOTICE_S:
            raise InvalidRequest(f"a notice of {notice_s} seconds makes no sense")
        with self._fleet.locked():
            folder, spec, state, shown = self._fleet.settled(machine_id)
            if spec.mode is not PurchaseMode.SPOT:
                raise InvalidRequest(f"machine {machine_id} is not spot and is never reclaimed")
            if shown is not MachineState.RUNNING:
                raise _wrong_state(machine_id, shown, "reclaimed")
            at = self._clock.now() + timedelta(seconds=notice_s)
            order = {"run": state["run"], "at": at.isoformat(), "notice_s": notice_s}
            write_json(folder.file("reclaim.json"), order)
            folder.wake()

    @reported
    def bill(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        """What each machine cost inside [start, end), up to now: unrounded, in the one currency.

        Machines that did not run then are left out.
        """
        self.list()  # an end that nobody has noticed yet belongs on the bill
        return self._meter.bill(start, min(end, self._clock.now()))

    @reported
    def bill_storage(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        """What each volume cost inside [start, end), up to now."""
        end = min(end, self._clock.now())
        return self._fleet.volumes.bill(start, end, self._tariff.volume_points)

    def _spec(self, request: LaunchRequest) -> Spec:
        offer = next((one for one in self.offers() if one.id == request.offer.id), None)
        if offer is None:
            raise InvalidRequest(
                f"this host does not sell {request.offer.id}", remedy="Choose one of its offers."
            )
        return Spec(
            launch_id=request.launch_id,
            installation=self._installation,
            fingerprint=fingerprint(request, self._installation),
            offer_id=offer.id,
            instance_type=offer.instance_type,
            zone=offer.zone,
            mode=offer.mode,
            cpus=offer.resources.cpus,
            memory_gib=offer.resources.memory_gib,
            gpus=offer.resources.gpus,
            tags=request.tags,
            volume_id=request.volume_id,
            volume_gib=request.volume_gib,
            created_at=self._clock.now(),
        )


def _wrong_state(machine_id: str, state: MachineState, done: str) -> ProviderError:
    message = f"machine {machine_id} is {state} and cannot be {done}"
    if state is MachineState.TERMINATED or state is MachineState.TERMINATING:
        return InvalidRequest(message)
    return ProviderError(message, remedy="Try again when it has finished that.")
