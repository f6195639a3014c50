"""What machines cost: the settings' word first, then a price book's, then the cloud's own API.

libcloud's price file is never read: a sixth of it is 0, much of it is missing and all of it is old.
What nobody knows is None, and a size without a price is not offered.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol

from policies.globs import matches_glob
from policies.world import PurchaseMode
from provisioner.providers.contract import PricePoint, Rates
from provisioner.providers.libcloud.cloud import Size
from provisioner.providers.libcloud.settings import CloudSettings

_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""Nobody said since when it holds."""


class PriceBook(Protocol):
    """Prices from elsewhere, such as a catalogue."""

    def price(self, region: str, instance_type: str, mode: PurchaseMode) -> PricePoint | None:
        """Of an hour; None when it is not known."""
        ...

    def rates(self, region: str) -> Rates: ...


class EmptyBook:
    """Knows nothing."""

    def price(self, region: str, instance_type: str, mode: PurchaseMode) -> PricePoint | None:
        return None

    def rates(self, region: str) -> Rates:
        return Rates()


class Prices:
    """The prices of one provider."""

    def __init__(self, settings: CloudSettings, book: PriceBook) -> None:
        self._settings = settings
        self._book = book

    def of(self, region: str, size: Size, mode: PurchaseMode) -> PricePoint | None:
        """Of an hour; always more than 0."""
        known = self.stated(region, size.name, mode)
        if known is not None:
            return known
        told = size.prices_per_hour.get(region)
        if told is None or told <= 0 or mode is not PurchaseMode.ON_DEMAND:
            return None
        return PricePoint(_ALWAYS, told, "USD")

    def stated(self, region: str, instance_type: str, mode: PurchaseMode) -> PricePoint | None:
        """The same without asking the cloud."""
        spot = mode is PurchaseMode.SPOT
        table = self._settings.spot_prices if spot else self._settings.prices
        for pattern, price in table.items():
            if matches_glob(pattern, instance_type):
                return PricePoint(_ALWAYS, price, self._settings.currency)
        found = self._book.price(region, instance_type, mode)
        return found if found is not None and found.price > Decimal(0) else None

    def rates(self) -> Rates:
        """Those of the first region: others differ by little."""
        rates = self._book.rates(self._settings.regions[0])
        price = self._settings.price_per_gib_month
        if price is None:
            return rates
        point = PricePoint(_ALWAYS, price, self._settings.currency)
        return Rates(point, rates.snapshot_gib_month, rates.address_hour, rates.egress_gib)
