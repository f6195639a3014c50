"""Makes machines: one for each launch id, however often it is asked (P1).

Where the cloud has tokens (or names that exist once), two equal calls make one machine by
themselves. Everywhere the launch id is looked for first, and calls with one id come one after the
other. What remains, where a cloud has no tokens, is a call whose answer was lost: `capabilities`
says so, and the reconciler then waits until the machine would have to show before it asks again.
"""

from __future__ import annotations

import hashlib
import re

from policies.globs import matches_glob
from policies.world import Offer, PurchaseMode
from provisioner.errors import InvalidRequest, NotFound
from provisioner.providers.contract import LaunchRequest, Machine
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.cloud import Cloud, NewServer, Server
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.homes import Homes
from provisioner.providers.libcloud.keyed_locks import KeyedLocks
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.memory import Memory
from provisioner.providers.libcloud.profile import Profile
from provisioner.providers.libcloud.servers import Servers
from provisioner.providers.libcloud.settings import CloudSettings

_LAUNCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Launcher:
    """Makes the machine of a launch request."""

    def __init__(
        self,
        profile: Profile,
        settings: CloudSettings,
        owner: Owner,
        clouds: Clouds,
        servers: Servers,
        homes: Homes,
        memory: Memory,
    ) -> None:
        self._profile = profile
        self._settings = settings
        self._owner = owner
        self._clouds = clouds
        self._servers = servers
        self._homes = homes
        self._memory = memory
        self._locks = KeyedLocks()

    def launch(self, request: LaunchRequest) -> Machine:
        """Raises the provider's errors, as the contract has them."""
        self._check(request)
        # A home, too, is one machine's: launches that want the same one come one after the other.
        with (
            self._locks.of(f"launch {request.launch_id}"),
            self._locks.of(f"home {request.volume_id or request.launch_id}"),
        ):
            return self._launch(request)

    def _launch(self, request: LaunchRequest) -> Machine:
        ended = self._memory.ended(request.launch_id)
        if ended is not None:
            _same(ended.server, request)
            return self._memory.machine_of(ended)
        region = request.offer.region
        cloud = self._clouds.of_region(region)
        server = self._servers.of_launch(region, request.launch_id)
        if server is not None:
            _same(server, request)
        else:
            self._homes.check(request)
            server = self._make(cloud, request)
            self._memory.made(self._clouds.endpoint(region), server)
        self._homes.complete(cloud, server)
        return self._memory.machine(server)

    def _make(self, cloud: Cloud, request: LaunchRequest) -> Server:
        offer = request.offer
        gpus = offer.resources.gpus
        image = (self._settings.image_gpu if gpus else "") or self._settings.image
        home: dict[str, str] = {}
        if request.volume_id is not None:
            home[marks.VOLUME] = request.volume_id
            home[marks.VOLUME_GIB] = str(request.volume_gib)
            if request.volume_from is not None:
                home[marks.VOLUME_FROM] = request.volume_from
        own = {marks.LAUNCH: request.launch_id, marks.FINGERPRINT: fingerprint(request)}
        new = NewServer(
            launch_id=request.launch_id,
            name=machine_name(request.launch_id),
            size=offer.instance_type,
            region=offer.region,
            zone=offer.zone,
            spot=offer.mode is PurchaseMode.SPOT,
            image=image or self._profile.default_image,
            user_data=request.user_data,
            marks=dict(request.tags) | self._owner.marks | own | home,
            gpus=gpus,
        )
        try:
            return cloud.create(new)
        except NotFound as error:
            raise InvalidRequest(error.message, remedy=error.remedy) from error

    def _check(self, request: LaunchRequest) -> None:
        if not _LAUNCH_ID.fullmatch(request.launch_id):
            raise InvalidRequest(f"{request.launch_id!r} cannot be the id of a launch")
        if not self._sells(request.offer):
            raise InvalidRequest(
                f"{request.offer.id} is not sold by {self._settings.name} here",
                remedy="Choose one of its offers.",
            )
        if request.volume_id is not None and not self._settings.volumes:
            raise InvalidRequest(f"provider {self._settings.name} has no volumes")
        if any(key.startswith("roost-") for key, _ in request.tags):
            raise InvalidRequest("tags that begin with roost- are taken")

    def _sells(self, offer: Offer) -> bool:
        spot = self._profile.spot and self._settings.spot
        modes = {PurchaseMode.ON_DEMAND, *((PurchaseMode.SPOT,) if spot else ())}
        named = "/".join(
            (self._settings.name, offer.region, offer.zone, offer.instance_type, offer.mode)
        )
        sold = any(matches_glob(one, offer.instance_type) for one in self._settings.types)
        here = offer.region in self._settings.regions
        return offer.id == named and here and offer.mode in modes and sold


def machine_name(launch_id: str) -> str:
    """Holds the launch id wherever a name may: letters, digits and dashes, 63 at most."""
    name = "roost-" + re.sub(r"[^a-z0-9-]", "-", launch_id.lower()).strip("-")
    if name == f"roost-{launch_id}" and len(name) <= 63:
        return name
    # Two ids must not become one name.
    return f"{name[:46]}-{hashlib.sha256(launch_id.encode()).hexdigest()[:16]}"


def fingerprint(request: LaunchRequest) -> str:
    """Of all that two launches under one id must agree in; prices may have changed meanwhile."""
    parts = (
        request.offer.id,
        request.user_data,
        sorted(request.tags),
        request.volume_id,
        request.volume_gib if request.volume_id is not None else None,
        request.volume_from,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _same(server: Server, request: LaunchRequest) -> None:
    if server.marks.get(marks.FINGERPRINT) != fingerprint(request):
        raise InvalidRequest(f"launch id {request.launch_id} has other parameters")
