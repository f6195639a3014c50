"""The ssh provider: machines that a team owns, cut into slices by CPUs and GPUs.

Each host runs the local provider for itself (see `program`); this one asks all of them at once and
puts their answers together. A host is a region and a zone of its own: a home lies on one host, and
a host that does not answer says nothing of its machines. Hosts are never switched off; a machine
that is terminated ends its processes and is wiped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from policies.world import Offer, PurchaseMode, Quota
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
from provisioner.providers.ssh.holdings import Held, Holdings
from provisioner.providers.ssh.host import Host
from provisioner.providers.ssh.looks import ANSWER_WITHIN_S, Looks
from provisioner.providers.ssh.loop import Loop
from provisioner.providers.ssh.settings import SshSettings

NAME = "ssh"
LIST_EVERY_S = 5.0


class SshProvider(Provider):
    """Implements `provisioner.providers.contract.Provider`. It asks nothing before a call.

    `holdings` is the file in which it keeps what the hosts hold, so that a host that is taken out
    of the settings with something on it is told of. Raises `StateError` when that is damaged.
    """

    def __init__(
        self,
        settings: SshSettings,
        installation: str,
        holdings: Path | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        self._loop = Loop()
        self._hosts = {
            host.name: Host(host, settings.currency, installation, self._loop)
            for host in settings.hosts
        }
        self._all = Looks(self._hosts, answer_within_s)
        self._looks: Mapping[str, Look] = {}
        """The answers of the hosts that answered when they were asked last."""
        self._holdings = Holdings(holdings)
        self._gone = settings.gone
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
        seen = self._all.look()
        self._looks = seen.looks
        if not seen.looks:
            raise next(iter(seen.failures.values()))
        for name, look in seen.looks.items():
            self._holdings.note(name, Held.of(look.listing))
        return Listing(
            machines=tuple(
                _machine(name, machine)
                for name, look in seen.looks.items()
                for machine in look.listing.machines
            ),
            volumes=tuple(
                replace(volume, zone=name, attached_to=_id(name, volume.attached_to))
                for name, look in seen.looks.items()
                for volume in look.listing.volumes
            ),
            silent_regions=frozenset(seen.failures) | self._taken_out(),
            troubles=tuple(self._troubles(seen.failures)),
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

    def quotas(self) -> Sequence[Quota]:
        """How much of each host is taken: where there is no room, no call is spent."""
        return tuple(
            replace(quota, provider=NAME) for look in self._looks.values() for quota in look.quotas
        )

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        if mode is not PurchaseMode.ON_DEMAND:
            raise InvalidRequest(f"{NAME} sells nothing as {mode}")
        host = self._host(zone)
        if self._looks and zone not in self._looks:
            raise ProviderError(f"host {zone} does not answer, and is not asked for prices.")
        return host.prices(PriceSpan(instance_type, zone, start, end)).points

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
        self._refuse_elsewhere(request, host.name)
        asked = replace(request, offer=_ours_to_theirs(offer), alternatives=())
        return _machine(host.name, host.launch(asked))

    def start(self, machine_id: str) -> None:
        self._act("start", machine_id)

    def stop(self, machine_id: str) -> None:
        self._act("stop", machine_id)

    def terminate(self, machine_id: str) -> None:
        self._act("terminate", machine_id)

    def delete_volume(self, volume_id: str) -> None:
        """On the host where it was seen, else on all."""
        _, failures = self._ask(
            lambda host: host.act("delete_volume", volume_id),
            self._holding(lambda held: volume_id in held.volumes),
        )
        for failure in failures:
            raise failure

    def close(self) -> None:
        """Let go of all connections."""
        for host in self._hosts.values():
            host.close()
        self._loop.close()

    def _troubles(self, failures: Mapping[str, ProviderError]) -> Iterator[str]:
        for failure in failures.values():
            yield str(failure)
        for name, look in self._looks.items():
            for trouble in (*look.troubles, *look.notes):
                yield f"host {name}: {trouble}"
        for name in sorted(self._taken_out()):
            yield str(self._missing(name))

    def _taken_out(self) -> frozenset[str]:
        """Hosts that held something when they were seen last and are in the settings no more."""
        return self._holdings.hosts() - self._hosts.keys() - self._gone

    def _missing(self, name: str) -> ProviderError:
        held = self._holdings[name]
        return ProviderError(
            f"host {name} is not in the settings of {NAME}, and had {len(held.machines)} machines "
            f"and {len(held.volumes)} homes when it was seen last.",
            remedy="Put it back with `drain = true` until it is empty, or name it in `gone`.",
        )

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is not None:
            return host
        if name in self._taken_out():
            raise self._missing(name)
        raise InvalidRequest(f"there is no host {name!r} in the settings of {NAME}")

    def _refuse_elsewhere(self, request: LaunchRequest, zone: str) -> None:
        """A launch, and a home, has one host; the others would make a second one of it."""
        for name in self._holding(lambda held: request.launch_id in held.machines) - {zone}:
            raise InvalidRequest(
                f"launch id {request.launch_id} was used before, on host {name}",
                remedy="Use another launch id.",
            )
        homes = self._holding(lambda held: request.volume_id in held.volumes)
        if homes and zone not in homes:
            raise InvalidRequest(
                f"home {request.volume_id} lies on host {min(homes)}",
                remedy=f"Choose an offer of zone {min(homes)}.",
            )

    def _holding(self, holds: Callable[[Held], bool]) -> frozenset[str]:
        """The hosts that held such a thing when they were seen last, whether they answer or not."""
        known = self._holdings.hosts() - self._gone
        return frozenset(name for name in known if holds(self._holdings[name]))

    def _act(self, call: str, machine_id: str) -> None:
        """By a machine's id (`host:launch id`) or its launch id, which any host may have."""
        name, colon, launch_id = machine_id.partition(":")
        if not colon:
            name, launch_id = "", machine_id
        where = {name} if colon else self._holding(lambda held: launch_id in held.machines)
        done, failures = self._ask(lambda host: host.act(call, launch_id), where)
        for failure in () if done else failures:
            raise failure
        if not done:
            raise NotFound(f"there is no machine {machine_id} on any host")

    def _ask(
        self, act: Callable[[Host], None], where: frozenset[str] | set[str]
    ) -> tuple[bool, Sequence[ProviderError]]:
        """Do it on these hosts, or on all: whether one had the thing, and how the others failed.

        A host that is in the settings no more may have it, so it fails.
        """
        names = where or self._hosts.keys() | self._taken_out()
        unknown = names - self._hosts.keys() - self._gone
        failures = [self._missing(name) for name in sorted(unknown)]
        done = False
        asked = [self._hosts[name].submit(act) for name in names if name in self._hosts]
        for answer in asked:
            try:
                answer.result()
                done = True
            except NotFound:
                continue
            except ProviderError as error:
                failures.append(error)
        return done, failures


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
