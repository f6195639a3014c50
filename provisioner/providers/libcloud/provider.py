"""The provider for clouds that libcloud reaches; which one, its settings say.

It keeps nothing that matters: what there is, the marks on it say. So any number of control planes,
one after the other or at once, see and control the same machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from policies.world import Offer, PurchaseMode, Quota
from provisioner.clock import Clock
from provisioner.errors import NotFound
from provisioner.providers.contract import (
    Capabilities,
    LaunchRequest,
    Leftover,
    Listing,
    Machine,
    PricePoint,
    Provider,
    Rates,
    VolumeSnapshot,
)
from provisioner.providers.libcloud.cloud import Cloud
from provisioner.providers.libcloud.clouds.registry import CLOUDS, check
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.homes import Homes
from provisioner.providers.libcloud.launch import Launcher
from provisioner.providers.libcloud.listing import DISK, Listings
from provisioner.providers.libcloud.machines import Machines
from provisioner.providers.libcloud.marks import Owner
from provisioner.providers.libcloud.memory import Memory
from provisioner.providers.libcloud.offers import SIZES_KEPT_FOR, Offers
from provisioner.providers.libcloud.prices import EmptyBook, PriceBook, Prices
from provisioner.providers.libcloud.servers import Servers
from provisioner.providers.libcloud.settings import CloudSettings


class LibcloudProvider(Provider):
    """Implements `provisioner.providers.contract.Provider` for one installation in one account.

    Nothing is asked of the cloud before the first call. `prices` is asked for what neither the
    settings nor the cloud's own API say.

    Raises:
        InvalidError: the settings do not fit their driver.
    """

    def __init__(
        self,
        settings: CloudSettings,
        installation: str,
        clock: Clock,
        prices: PriceBook | None = None,
    ) -> None:
        check(settings)
        kind = CLOUDS[settings.driver]
        self.profile = kind.profile
        self._settings = settings
        owner = Owner(installation, settings.name)
        endpoints = settings.regions if self.profile.regional else ("",)
        self._clouds = clouds = Clouds(lambda at: kind(settings, owner, at), endpoints)
        memory = Memory(settings.name, self.profile, clock)
        self._servers = servers = Servers(clouds, memory)
        self._homes = homes = Homes(clouds, servers, owner)
        self._machines = Machines(settings.name, clouds, servers, memory)
        self._launcher = Launcher(self.profile, settings, owner, clouds, servers, homes, memory)
        self._listings = Listings(self.profile.title, settings.regions, clouds, homes, memory)
        self._prices = Prices(settings, prices or EmptyBook())
        self._offers = Offers(self.profile, settings, servers, self._prices, clock)

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def capabilities(self) -> Capabilities:
        profile = self.profile
        return Capabilities(
            spot=profile.spot and self._settings.spot,
            stop=True,
            resize_in_place=True,
            client_tokens=profile.client_tokens,
            volumes=self._settings.volumes,
            home_disks=self._settings.volumes,
            snapshots=self._settings.volumes and profile.snapshots,
            interruption_notice_s=profile.interruption_notice_s,
            listing_lag_s=profile.listing_lag_s,
            ended_visible_s=profile.ended_visible_s,
            list_every_s=profile.list_every_s,
            offers_every_s=SIZES_KEPT_FOR.total_seconds(),
        )

    def offers(self) -> Iterable[Offer]:
        return self._offers.all()

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        return self._offers.prices(instance_type, zone, mode, start, end)

    def rates(self) -> Rates:
        return self._prices.rates()

    def launch(self, request: LaunchRequest) -> Machine:
        return self._launcher.launch(request)

    def start(self, machine_id: str) -> None:
        self._machines.start(machine_id)

    def stop(self, machine_id: str) -> None:
        self._machines.stop(machine_id)

    def terminate(self, machine_id: str) -> None:
        self._machines.terminate(machine_id)

    def delete_volume(self, volume_id: str) -> None:
        if self._settings.volumes:
            self._homes.delete(volume_id)

    def list(self) -> Listing:
        return self._listings.list()

    def quotas(self) -> Sequence[Quota]:
        answers, failure = self._servers.everywhere(lambda cloud: tuple(cloud.quotas()))
        if not answers and failure is not None:
            raise failure
        return tuple(quota for one in answers.values() for quota in one)

    def resize(self, machine_id: str, offer: Offer) -> None:
        self._machines.resize(machine_id, offer)

    def snapshot(self, volume_id: str, snapshot_id: str) -> VolumeSnapshot:
        if not self.capabilities.snapshots:
            raise self._unsupported("make snapshots")
        return self._homes.snapshot(volume_id, snapshot_id)

    def delete_snapshot(self, snapshot_id: str) -> None:
        if not self.capabilities.snapshots:
            raise self._unsupported("delete snapshots")
        self._homes.delete_snapshot(snapshot_id)

    def delete_leftover(self, leftover: Leftover) -> None:
        if leftover.kind not in (DISK, *self.profile.leftovers):
            raise self._unsupported(f"make a {leftover.kind}, so it has none to delete")
        for cloud in map(self._clouds.at, self._clouds.endpoints):
            try:
                if leftover.kind == DISK:
                    self._delete_twin(cloud, leftover.id)
                elif leftover in tuple(cloud.leftovers()):
                    cloud.delete_leftover(leftover)
            except NotFound:
                continue

    def _delete_twin(self, cloud: Cloud, disk_id: str) -> None:
        for disk in self._homes.twins(tuple(cloud.disks())):
            if disk.id == disk_id:
                cloud.delete_disk(disk)
