"""What can be bought: each size in each zone and mode that has a price."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from policies.globs import matches_glob
from policies.world import Offer, PurchaseMode, Resources
from provisioner.clock import Clock
from provisioner.errors import ProviderError
from provisioner.providers.contract import PricePoint
from provisioner.providers.libcloud.cloud import Size
from provisioner.providers.libcloud.prices import Prices
from provisioner.providers.libcloud.profile import Profile
from provisioner.providers.libcloud.servers import Servers
from provisioner.providers.libcloud.settings import CloudSettings

SIZES_KEPT_FOR = timedelta(hours=1)


class Offers:
    """The offers and prices of one provider."""

    def __init__(
        self,
        profile: Profile,
        settings: CloudSettings,
        servers: Servers,
        prices: Prices,
        clock: Clock,
    ) -> None:
        self._profile = profile
        self._settings = settings
        self._servers = servers
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[datetime, tuple[Size, ...]] | None = None

    def all(self) -> Iterable[Offer]:
        """Raises ProviderError when no endpoint answers."""
        spot = self._profile.spot and self._settings.spot
        modes = (PurchaseMode.ON_DEMAND, *((PurchaseMode.SPOT,) if spot else ()))
        for size in self._sizes():
            for region, zones in size.zones.items():
                if region not in self._settings.regions:
                    continue
                for mode in modes:
                    price = self._prices.of(region, size, mode)
                    if price is None or (mode is PurchaseMode.SPOT and not size.spot):
                        continue
                    for zone in zones:
                        yield self._offer(size, region, zone, mode, price)

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> Sequence[PricePoint]:
        """One point: no cloud here tells what its prices were. None where it is not known."""
        region = self._region_of(zone)
        found = self._prices.stated(region, instance_type, mode)
        if found is None:
            same = (size for size in self._sizes() if size.name == instance_type)
            found = next((p for one in same if (p := self._prices.of(region, one, mode))), None)
        if found is None:
            return ()
        return (PricePoint(min(found.at, start), found.price, found.currency),)

    def _sizes(self) -> tuple[Size, ...]:
        with self._lock:
            now = self._clock.now()
            if self._kept is not None and now - self._kept[0] < SIZES_KEPT_FOR:
                return self._kept[1]
        answers, failure = self._servers.everywhere(lambda cloud: tuple(cloud.sizes()))
        if not answers:
            raise failure or ProviderError(f"{self._settings.name} sells nothing")
        sizes = tuple(
            size
            for one in answers.values()
            for size in one
            if any(matches_glob(pattern, size.name) for pattern in self._settings.types)
        )
        if failure is None:
            with self._lock:
                self._kept = (now, sizes)
        return sizes

    def _region_of(self, zone: str) -> str:
        """Zones are named after their regions, except where an operator names them."""
        regions = self._settings.regions
        found = [region for region in regions if zone.startswith(region)]
        return max(found, key=len) if found else regions[0]

    def _offer(
        self, size: Size, region: str, zone: str, mode: PurchaseMode, price: PricePoint
    ) -> Offer:
        worth_stopping = mode is PurchaseMode.ON_DEMAND and not self._profile.bills_stopped
        return Offer(
            id=f"{self._settings.name}/{region}/{zone}/{size.name}/{mode}",
            provider=self._settings.name,
            region=region,
            zone=zone,
            instance_type=size.name,
            mode=mode,
            resources=Resources(size.cpus, size.memory_gib, size.gpus, size.gpu_model),
            price_per_hour=price.price,
            currency=price.currency,
            can_stop=worth_stopping,
        )
