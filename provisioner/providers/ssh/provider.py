"""The ssh provider: machines that a team owns, cut into slices by CPUs and GPUs.

Each host runs the local provider for itself (see `program`); this one asks all of them at once and
puts their answers together. A host is a region and a zone of its own: a home lies on one host, and
a host that does not answer says nothing of its machines. Hosts are never switched off; a machine
that is terminated ends its processes and is wiped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime
from ipaddress import ip_address

from policies.world import Offer, PurchaseMode
from provisioner.errors import InvalidRequest, NotFound, ProviderError
from provisioner.providers.contract import (
    Capabilities,
    LaunchRequest,
    Listing,
    Machine,
    PricePoint,
    Provider,
    Rates,
)
from provisioner.providers.local.remote import Look, PriceSpan
from provisioner.providers.ssh.connection import Loop
from provisioner.providers.ssh.host import Host
from provisioner.providers.ssh.settings import SshSettings

NAME = "ssh"
LIST_EVERY_S = 5.0
ANSWER_WITHIN_S = 4.0
"""A host that takes longer holds up no other; its answer is taken when it comes."""
_log = logging.getLogger(__name__)


class SshProvider(Provider):
    """Implements `provisioner.providers.contract.Provider`. It asks nothing before a call."""

    def __init__(self, settings: SshSettings, installation: str) -> None:
        self._loop = Loop()
        self._hosts = {
            host.name: Host(host, settings.currency, installation, self._loop)
            for host in settings.hosts
        }
        self._pool = ThreadPoolExecutor(2 * len(self._hosts), thread_name_prefix="ssh-look")
        self._looking = threading.Lock()
        self._asked: dict[str, Future[Look]] = {}
        """Questions that have no answer yet: a host that hangs is not asked again and again."""
        self._looks: dict[str, Look] = {}
        """The answers of the hosts that answered when they were asked last."""
        self._on_this_host = all(_is_loopback(host.address) for host in settings.hosts)

    @property
    def name(self) -> str:
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            stop=True,
            client_tokens=True,
            volumes=True,
            same_host=self._on_this_host,
            own_prices=True,
            list_every_s=LIST_EVERY_S,
            offers_every_s=LIST_EVERY_S,
        )

    def list(self) -> Listing:
        """All hosts at once; those that do not answer in time are named.

        Raises:
            ProviderError: none of them answered.
        """
        looks, failures = self._look()
        if not looks:
            raise next(iter(failures.values()))
        return Listing(
            machines=tuple(
                _machine(name, machine)
                for name, look in looks.items()
                for machine in look.listing.machines
            ),
            volumes=tuple(
                replace(volume, zone=name, attached_to=_id(name, volume.attached_to))
                for name, look in looks.items()
                for volume in look.listing.volumes
            ),
            silent_regions=frozenset(failures),
            troubles=tuple(
                f"host {name}: {trouble}"
                for name, look in looks.items()
                for trouble in look.troubles
            ),
        )

    def offers(self) -> Sequence[Offer]:
        """Those of the hosts that answered last, are well and are not being drained."""
        if not self._looks:
            self.list()
        return tuple(
            _theirs_to_ours(offer)
            for name, look in self._looks.items()
            if not look.troubles and not self._hosts[name].settings.drain
            for offer in look.offers
        )

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        if mode is not PurchaseMode.ON_DEMAND:
            raise InvalidRequest(f"{NAME} sells nothing as {mode}")
        return self._host(zone).prices(PriceSpan(instance_type, zone, start, end)).points

    def rates(self) -> Rates:
        """Of the first host that has been heard: a home's price is its host's."""
        return next((look.rates for look in self._looks.values()), Rates())

    def launch(self, request: LaunchRequest) -> Machine:
        offer = request.offer
        if offer.provider != NAME or offer.mode is not PurchaseMode.ON_DEMAND:
            raise InvalidRequest(f"{offer.id} is not sold by {NAME}")
        if request.volume_from is not None:
            raise self._unsupported("make a home from a snapshot")
        host = self._host(offer.zone)
        asked = replace(request, offer=_ours_to_theirs(offer), alternatives=())
        return _machine(host.name, host.launch(asked))

    def start(self, machine_id: str) -> None:
        self._act("start", machine_id)

    def stop(self, machine_id: str) -> None:
        self._act("stop", machine_id)

    def terminate(self, machine_id: str) -> None:
        self._act("terminate", machine_id)

    def delete_volume(self, volume_id: str) -> None:
        self._everywhere(lambda host: host.act("delete_volume", volume_id))

    def close(self) -> None:
        """Let go of all connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for host in self._hosts.values():
            host.close()

    def _look(self) -> tuple[Mapping[str, Look], Mapping[str, ProviderError]]:
        """What each host answers, and how the others failed."""
        with self._looking:
            return self._looked()

    def _looked(self) -> tuple[Mapping[str, Look], Mapping[str, ProviderError]]:
        for name, host in self._hosts.items():
            if name not in self._asked:
                self._asked[name] = self._pool.submit(host.look)
        wait(self._asked.values(), ANSWER_WITHIN_S)
        looks: dict[str, Look] = {}
        failures: dict[str, ProviderError] = {}
        for name, future in list(self._asked.items()):
            if not future.done():
                failures[name] = ProviderError(f"host {name} has not answered yet")
                continue
            del self._asked[name]
            try:
                looks[name] = future.result()
            except ProviderError as error:
                _log.warning("%s", error)
                failures[name] = error
        self._looks = looks
        return looks, failures

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            raise InvalidRequest(
                f"there is no host {name!r} in the settings of {NAME}",
                remedy="Take a host out only after it was drained.",
            )
        return host

    def _act(self, call: str, machine_id: str) -> None:
        """By a machine's id (`host:launch id`) or its launch id, which any host may have."""
        name, colon, launch_id = machine_id.partition(":")
        if colon and name in self._hosts:
            self._hosts[name].act(call, launch_id)
        elif not self._everywhere(lambda host: host.act(call, machine_id)):
            raise NotFound(f"there is no machine {machine_id} on any host")

    def _everywhere(self, act: Callable[[Host], None]) -> bool:
        """Do it on each host; whether any of them had the thing.

        Raises:
            ProviderError: what another host answered, where none had it: it may be there.
        """
        done, failure = False, None
        for future in [self._pool.submit(act, host) for host in self._hosts.values()]:
            try:
                future.result()
                done = True
            except NotFound:
                continue
            except ProviderError as error:
                failure = error
        if failure is not None and not done:
            raise failure
        return done


def _machine(host: str, machine: Machine) -> Machine:
    offer_id = f"{NAME}/{machine.offer_id.partition('/')[2]}"
    return replace(machine, id=f"{host}:{machine.id}", offer_id=offer_id)


def _id(host: str, machine_id: str | None) -> str | None:
    return None if machine_id is None else f"{host}:{machine_id}"


def _theirs_to_ours(offer: Offer) -> Offer:
    """A host's own provider is called `local` there."""
    return replace(offer, provider=NAME, id=f"{NAME}/{offer.id.partition('/')[2]}")


def _ours_to_theirs(offer: Offer) -> Offer:
    return replace(offer, provider="local", id=f"local/{offer.id.partition('/')[2]}")


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
