"""How the values of `policies.world` are kept in JSON columns."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from policies.world import Needs, Offer, PurchaseMode, Resources


def resources_to_json(resources: Resources) -> dict[str, Any]:
    return {
        "cpus": resources.cpus,
        "memory_gib": resources.memory_gib,
        "gpus": resources.gpus,
        "gpu_model": resources.gpu_model,
    }


def needs_to_json(needs: Needs) -> dict[str, Any]:
    price = needs.max_price_per_hour
    return {
        "resources": resources_to_json(needs.resources),
        "mode": needs.mode,
        "provider": needs.provider,
        "region": needs.region,
        "max_price_per_hour": None if price is None else str(price),
    }


def needs_from_json(body: dict[str, Any]) -> Needs:
    price = body["max_price_per_hour"]
    return Needs(
        resources=Resources(**body["resources"]),
        mode=PurchaseMode(body["mode"]) if body["mode"] else None,
        provider=body["provider"],
        region=body["region"],
        max_price_per_hour=None if price is None else Decimal(price),
    )


def offer_to_json(offer: Offer) -> dict[str, Any]:
    return {
        "id": offer.id,
        "provider": offer.provider,
        "region": offer.region,
        "zone": offer.zone,
        "instance_type": offer.instance_type,
        "mode": offer.mode,
        "resources": resources_to_json(offer.resources),
        "price_per_hour": str(offer.price_per_hour),
        "currency": offer.currency,
        "can_stop": offer.can_stop,
    }


def offer_from_json(body: dict[str, Any]) -> Offer:
    has = body["resources"]
    return _offer(
        body["id"],
        body["provider"],
        body["region"],
        body["zone"],
        body["instance_type"],
        body["mode"],
        (has["cpus"], has["memory_gib"], has["gpus"], has["gpu_model"]),
        body["price_per_hour"],
        body["currency"],
        body["can_stop"],
    )


@lru_cache(maxsize=8192)
def _offer(
    id: str,
    provider: str,
    region: str,
    zone: str,
    instance_type: str,
    mode: str,
    resources: tuple[float, float, int, str | None],
    price: str,
    currency: str,
    can_stop: bool,
) -> Offer:
    """One value for the many machines that were bought alike."""
    return Offer(
        id,
        provider,
        region,
        zone,
        instance_type,
        PurchaseMode(mode),
        Resources(*resources),
        Decimal(price),
        currency,
        can_stop,
    )
