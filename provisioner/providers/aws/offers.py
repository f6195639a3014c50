"""What AWS sells: each type in each zone that offers it and has a subnet, on demand and spot.

What has no price is not offered: nobody knows what it would cost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal

from policies.world import Offer, PurchaseMode
from provisioner.errors import InvalidRequest, ProviderError
from provisioner.providers.aws.instance import NAME, offer_id, region_of
from provisioner.providers.aws.instance_types import InstanceType, InstanceTypes
from provisioner.providers.aws.networks import Networks
from provisioner.providers.aws.price_list import CURRENCY, PriceList
from provisioner.providers.aws.spot_prices import SpotPrices
from provisioner.providers.contract import PricePoint

_log = logging.getLogger(__name__)


class Offers:
    """The offers of all regions, and their prices."""

    def __init__(
        self,
        regions: Sequence[str],
        types: InstanceTypes,
        networks: Networks,
        price_list: PriceList,
        spot_prices: SpotPrices,
    ) -> None:
        self._regions = regions
        self._types = types
        self._networks = networks
        self._price_list = price_list
        self._spot_prices = spot_prices

    def all(self) -> Iterator[Offer]:
        """One region after the other; one that does not answer is left out.

        Raises:
            ProviderError: no region answered.
        """
        failures: list[ProviderError] = []
        for region in self._regions:
            try:
                yield from self._region(region)
            except ProviderError as error:
                _log.warning("AWS %s does not tell its offers: %s", region, error)
                failures.append(error)
        if len(failures) == len(self._regions):
            raise failures[0]

    def prices(
        self, instance_type: str, zone: str, mode: PurchaseMode, start: datetime, end: datetime
    ) -> list[PricePoint]:
        """The prices in force over [start, end), oldest first.

        Spot's begin where AWS's memory does, 90 days ago. On demand only the price of now is told,
        and it counts for the whole span.

        Raises:
            InvalidRequest: it is not sold.
        """
        region = region_of(zone)
        if region not in self._regions:
            raise InvalidRequest(f"zone {zone} is in none of the regions of `aws.regions`")
        if mode is PurchaseMode.SPOT:
            told = self._spot_prices.history(region, instance_type, zone, start, end)
            points = [PricePoint(at, price, CURRENCY) for at, price in told]
        else:
            now = self._price_list.on_demand(region).get(instance_type)
            points = [] if now is None else [PricePoint(min(now.at, start), now.price, CURRENCY)]
        if not points:
            raise InvalidRequest(f"AWS tells no price of {instance_type} in {zone} as {mode}")
        return points

    def _region(self, region: str) -> Iterator[Offer]:
        types, subnets = self._types.all(region), self._networks.subnets(region)
        on_demand, spot = self._price_list.on_demand(region), self._spot_prices.now(region)
        for zone, offered in sorted(self._types.zones(region).items()):
            if zone not in subnets:
                continue
            for name in sorted(offered & types.keys()):
                one = types[name]
                listed = on_demand.get(name)
                if listed is not None and PurchaseMode.ON_DEMAND in one.modes:
                    yield _offer(one, zone, PurchaseMode.ON_DEMAND, listed.price)
                price = spot.get((name, zone))
                if price is not None and PurchaseMode.SPOT in one.modes:
                    yield _offer(one, zone, PurchaseMode.SPOT, price)


def _offer(one: InstanceType, zone: str, mode: PurchaseMode, price: Decimal) -> Offer:
    return Offer(
        id=offer_id(one.name, zone, mode),
        provider=NAME,
        region=region_of(zone),
        zone=zone,
        instance_type=one.name,
        mode=mode,
        resources=one.resources,
        price_per_hour=price,
        currency=CURRENCY,
        can_stop=mode is PurchaseMode.ON_DEMAND,
    )
