"""The AWS provider: EC2 machines, on demand and spot, in one account's regions.

It keeps nothing that matters: what there is, its tags say. So any number of control planes, one
after the other or at once, see and control the same machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from policies.world import Offer, PurchaseMode, Quota
from provisioner.clock import Clock
from provisioner.errors import InvalidRequest
from provisioner.providers.aws.fleet import Fleets
from provisioner.providers.aws.homes import Homes
from provisioner.providers.aws.images import Images
from provisioner.providers.aws.instance import NAME
from provisioner.providers.aws.instance_types import InstanceTypes
from provisioner.providers.aws.instances import LISTING_LAG, Instances
from provisioner.providers.aws.launch import Launcher, Parts
from provisioner.providers.aws.limiter import Limiter
from provisioner.providers.aws.listing import GROUP, SNAPSHOT, TEMPLATE, Listings
from provisioner.providers.aws.machines import Machines
from provisioner.providers.aws.networks import Networks
from provisioner.providers.aws.notices import NOTICE_S, Notices
from provisioner.providers.aws.offers import Offers
from provisioner.providers.aws.price_list import PriceList
from provisioner.providers.aws.quotas import Quotas
from provisioner.providers.aws.session import Aws
from provisioner.providers.aws.settings import AwsSettings
from provisioner.providers.aws.snapshots import Snapshots
from provisioner.providers.aws.spot_prices import KEPT_FOR, SpotPrices
from provisioner.providers.contract import (
    Capabilities,
    LaunchRequest,
    Leftover,
    Listing,
    Machine,
    Notice,
    PricePoint,
    Provider,
    Rates,
    VolumeSnapshot,
)


class AwsProvider(Provider):
    """Implements `provisioner.providers.contract.Provider` for one installation in one account.

    Nothing is asked of AWS before the first call. `limiter` holds the rates of calls.
    """

    def __init__(
        self,
        settings: AwsSettings,
        installation: str,
        clock: Clock,
        limiter: Limiter | None = None,
    ) -> None:
        self._settings = settings
        aws = Aws(settings, limiter or Limiter())
        regions = settings.regions
        self._types = InstanceTypes(aws, settings, clock)
        self._networks = Networks(aws, settings, installation, clock)
        self._fleets = Fleets(aws, self._networks, installation)
        instances = Instances(aws, regions, installation, clock)
        self._snapshots = Snapshots(aws, instances, installation)
        self._homes = Homes(aws, instances, self._snapshots, installation)
        self._machines = Machines(aws, instances, self._types)
        self._launcher = Launcher(
            Parts(
                aws,
                settings,
                installation,
                instances,
                self._types,
                Images(aws, settings, clock),
                self._networks,
                self._homes,
                self._fleets,
            )
        )
        self._listings = Listings(
            regions, instances, self._homes, self._snapshots, self._networks, self._fleets, clock
        )
        self._price_list = PriceList(aws, clock)
        self._offers = Offers(
            regions,
            self._types,
            self._networks,
            self._price_list,
            SpotPrices(aws, self._types, clock),
        )
        self._quotas = Quotas(
            aws,
            regions,
            installation,
            self._types,
            lambda region: self._listings.last.get(region, ()),
            clock,
        )
        self._notices = Notices(aws, settings.interruption_queues)

    @property
    def name(self) -> str:
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            spot=True,
            stop=True,
            hibernate=self._settings.hibernation,
            resize_in_place=True,
            client_tokens=True,
            alternatives=self._settings.spot_allocation == "fleet",
            volumes=True,
            home_disks=True,
            snapshots=True,
            interruption_notice_s=NOTICE_S,
            listing_lag_s=LISTING_LAG.total_seconds(),
            ended_visible_s=1800.0,
            list_every_s=self._settings.list_every_s,
            offers_every_s=KEPT_FOR.total_seconds(),
        )

    def offers(self) -> Iterable[Offer]:
        return self._offers.all()

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        return self._offers.prices(instance_type, zone, mode, start, end)

    def rates(self) -> Rates:
        """Those of the first region: others differ by little."""
        return self._price_list.rates(self._settings.regions[0])

    def launch(self, request: LaunchRequest) -> Machine:
        return self._launcher.launch(request).machine()

    def start(self, machine_id: str) -> None:
        self._machines.start(machine_id)

    def stop(self, machine_id: str) -> None:
        self._machines.stop(machine_id)

    def terminate(self, machine_id: str) -> None:
        self._machines.terminate(machine_id)

    def delete_volume(self, volume_id: str) -> None:
        self._homes.delete(volume_id)

    def list(self) -> Listing:
        return self._listings.list()

    def quotas(self) -> Sequence[Quota]:
        return self._quotas.all()

    def notices(self) -> Sequence[Notice]:
        return self._notices.take()

    def hibernate(self, machine_id: str) -> None:
        if not self._settings.hibernation:
            raise self._unsupported("hibernate a machine while `aws.hibernation` is not set")
        self._machines.hibernate(machine_id)

    def resize(self, machine_id: str, offer: Offer) -> None:
        self._machines.resize(machine_id, offer)

    def snapshot(self, volume_id: str, snapshot_id: str) -> VolumeSnapshot:
        region, ebs_id = self._homes.ebs_id(volume_id)
        return self._snapshots.take(region, ebs_id, volume_id, snapshot_id)

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._snapshots.delete(snapshot_id)

    def delete_leftover(self, leftover: Leftover) -> None:
        region, _, id = leftover.id.partition("/")
        delete = {
            GROUP: self._networks.delete_group,
            TEMPLATE: self._fleets.delete_template,
            SNAPSHOT: self._snapshots.delete_ebs,
        }.get(leftover.kind)
        if delete is None or region not in self._settings.regions:
            raise InvalidRequest(f"provider {NAME} makes no {leftover.kind} {leftover.id}")
        delete(region, id)
