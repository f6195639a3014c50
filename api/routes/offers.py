"""Offers: what could be bought now."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from api.auth import Asking
from api.paging import page
from api.routes.needs import ResourcesOut
from api.services import Services
from api.values import Money, MoneyIn, PageOut, Paging, View, Word
from policies.world import PurchaseMode
from provisioner.offers.service import OfferQuery

router = APIRouter(prefix="/v1/offers", tags=["offers"])


class OfferOut(View):
    """One way to buy one machine."""

    id: str
    provider: str
    region: str
    zone: str
    instance_type: str
    mode: PurchaseMode
    resources: ResourcesOut
    price_per_hour: Money
    currency: str
    can_stop: bool


class OffersQuery(Paging):
    """What the machine must have at least, and cost at most."""

    cpus: float | None = Field(default=None, ge=0, le=1024, allow_inf_nan=False)
    memory_gib: float | None = Field(default=None, ge=0, le=32768, allow_inf_nan=False)
    gpus: int | None = Field(default=None, ge=0, le=64)
    gpu_model: Word | None = None
    mode: PurchaseMode | None = None
    region: Word | None = Field(default=None, description="A region, or a glob such as `eu-*`.")
    provider: Word | None = None
    max_price_per_hour: MoneyIn | None = None


@router.get("", summary="Offers that fit, cheapest first")
def list_offers(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[OffersQuery, Query()],
) -> PageOut[OfferOut]:
    wanted = OfferQuery(
        cpus=query.cpus,
        memory_gib=query.memory_gib,
        gpus=query.gpus,
        gpu_model=query.gpu_model,
        mode=query.mode,
        region=query.region,
        provider=query.provider,
        max_price_per_hour=query.max_price_per_hour,
    )
    part = services.offers.search(actor, wanted, query.limit, query.cursor)
    return page(request, response, part, OfferOut)
