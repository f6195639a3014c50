"""Offers that the settings hold themselves: a contract's price, a lab's machines."""

from __future__ import annotations

from policies.world import Offer, PurchaseMode, Resources
from provisioner.gpus import canonical_gpu
from provisioner.offers.columns import Columns
from provisioner.offers.settings import OffersSettings, OwnOffer


def own_offers(settings: OffersSettings) -> Columns:
    """As they are written there."""
    return Columns.of([_offer(own) for own in settings.own])


def _offer(own: OwnOffer) -> Offer:
    zone = own.zone or own.region
    model = canonical_gpu(own.gpu_model) if own.gpu_model else None
    return Offer(
        id=f"{own.provider}/{own.region}/{zone}/{own.type}/{own.mode}",
        provider=own.provider,
        region=own.region,
        zone=zone,
        instance_type=own.type,
        mode=own.mode,
        resources=Resources(own.cpus, own.memory_gib, own.gpus, model),
        price_per_hour=own.price_per_hour,
        currency=own.currency,
        can_stop=own.mode is PurchaseMode.ON_DEMAND,
    )
