"""Searching the offers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase

from policies.world import Offer, PurchaseMode
from provisioner.offers.catalogue import Catalogue
from provisioner.people import Actor
from provisioner.store.paging import Page, slice_page


@dataclass(frozen=True, slots=True)
class OfferQuery:
    """What is looked for; None does not matter. `region` may be a pattern such as `us-*`."""

    cpus: float | None = None
    memory_gib: float | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    mode: PurchaseMode | None = None
    region: str | None = None
    provider: str | None = None
    max_price_per_hour: Decimal | None = None

    def fits(self, offer: Offer) -> bool:
        has = offer.resources
        return (
            (self.cpus is None or has.cpus >= self.cpus)
            and (self.memory_gib is None or has.memory_gib >= self.memory_gib)
            and (self.gpus is None or has.gpus >= self.gpus)
            and (self.gpu_model is None or has.gpu_model == self.gpu_model)
            and (self.mode is None or offer.mode is self.mode)
            and (self.region is None or fnmatchcase(offer.region, self.region))
            and (self.provider is None or offer.provider == self.provider)
            and (self.max_price_per_hour is None or offer.price_per_hour <= self.max_price_per_hour)
        )


class Offers:
    """What can be bought, cheapest first."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def search(
        self,
        actor: Actor,
        query: OfferQuery,
        limit: int,
        cursor: str | None,
    ) -> Page[Offer]:
        found = [offer for offer in self._catalogue.all() if query.fits(offer)]
        found.sort(key=lambda offer: (offer.price_per_hour, offer.id))
        return slice_page(found, limit, cursor)
