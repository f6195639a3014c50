"""Offers: what could be bought now, where that is known from, and what is not believed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from api.auth import Asking
from api.paging import page
from api.routes.needs import ResourcesOut
from api.services import Services
from api.values import Money, MoneyIn, PageOut, Paging, View, Word
from policies.world import PurchaseMode
from provisioner.offers.asking import Asked, search_of
from provisioner.offers.search import Found, Order
from provisioner.store.paging import Page

router = APIRouter(prefix="/v1/offers", tags=["offers"])

List = Annotated[str, Field(min_length=1, max_length=400)]
Span = Annotated[str, Field(min_length=1, max_length=40)]


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


class FoundOut(OfferOut):
    """An offer that fits, and what is known beside its price."""

    price_per_gpu_hour: Money | None
    price_per_work: Money | None = Field(
        description="Of a unit of the given throughput, or of a TFLOP/s for an hour."
    )
    beside_per_hour: Money | None = Field(
        description="Disk, address and egress as asked for; null where a price is unknown."
    )
    total_per_hour: Money | None = Field(
        description="The machine with all that; null where a price is unknown, or nothing asked."
    )
    interruption_rate: float | None = Field(
        description="Share of such machines that were taken back in a month, at most."
    )
    arch: str | None = Field(description="`x86_64` or `arm64`, where that is known.")
    buyable: bool = Field(description="Whether a provider of this installation sells it.")
    source: str
    at: datetime | None = Field(description="When its source told it.")
    stale: bool


class OffersQuery(Paging):
    """What must fit. Numbers are ranges: `32+`, `4..8`, `8`. Lists are separated by commas."""

    cpus: Span | None = None
    memory_gib: Span | None = None
    gpu: List | None = Field(default=None, description="Any of these: `A100:8,H100:4+`.")
    gpu_memory_gib: Span | None = Field(default=None, description="Of each GPU.")
    mode: PurchaseMode | None = None
    provider: List | None = None
    region: List | None = Field(default=None, description="Regions or globs: `us-*,eu-west-1`.")
    zone: List | None = None
    type: List | None = Field(default=None, description="Instance types or globs.")
    arch: List | None = Field(
        default=None, description="`x86_64` or `arm64`; what is not known to be that is left out."
    )
    max_price_per_hour: MoneyIn | None = Field(
        default=None, description="Of the machine alone, in the currency of each offer."
    )
    order: Order = Field(
        default=Order.PRICE,
        description="What comes first. The price is that of the machine with its disk, address and "
        "egress, where these are asked for.",
    )
    in_order_of_gpus: bool = Field(
        default=False, description="All offers of the first GPU come before those of the second."
    )
    throughput: List | None = Field(
        default=None, description="Work of one GPU by model, as measured: `A100=100,H100=220`."
    )
    disk_gib: float = Field(default=0, ge=0, le=65536, allow_inf_nan=False)
    address: bool = Field(default=False, description="A public IPv4 address.")
    egress_gib_per_hour: float = Field(default=0, ge=0, le=10**6, allow_inf_nan=False)
    everything: bool = Field(
        default=False, description="Also what no provider of this installation sells."
    )


class DroppedOut(View):
    """Offers that one part of a query leaves out."""

    because: str = Field(
        description="The part of the query; `not_sold_here`: they fit, and no provider of this "
        "installation sells them."
    )
    count: int
    example: OfferOut


class ExplainedOut(View):
    """Why the other offers do not fit."""

    items: list[DroppedOut]


class DiffOut(View):
    """What changed when a source was read last."""

    added: int
    removed: int
    repriced: int
    examples: list[str]


class SourceOut(View):
    """Where offers come from, and how old they are."""

    name: str
    buyable: bool
    offers: int
    quarantined: int
    at: datetime | None
    stale: bool
    diff: DiffOut
    error: str | None


class SourcesOut(View):
    """All sources."""

    items: list[SourceOut]


class QuarantinedOut(View):
    """A row that is not believed, and so not sold."""

    source: str
    offer_id: Word
    reason: str
    observed: str
    threshold: str


@router.get("", summary="Offers that fit, the best first")
def list_offers(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[OffersQuery, Query()],
) -> PageOut[FoundOut]:
    part = services.offers.search(actor, search_of(_asked(query)), query.limit, query.cursor)
    shown = Page(tuple(flat(found) for found in part.items), part.next)
    return page(request, response, shown, FoundOut)


@router.get("/left-out", summary="Why the other offers do not fit")
def explain_offers(
    services: Services, actor: Asking, query: Annotated[OffersQuery, Query()]
) -> ExplainedOut:
    dropped = services.offers.explain(actor, search_of(_asked(query)))
    return ExplainedOut(items=[DroppedOut.model_validate(one) for one in dropped])


@router.get("/sources", summary="Where offers come from, and how old they are")
def list_sources(services: Services, actor: Asking) -> SourcesOut:
    sources = services.offers.sources(actor)
    return SourcesOut(items=[SourceOut.model_validate(source) for source in sources])


@router.get("/quarantine", summary="Rows that are not believed, and so not sold")
def list_quarantined(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[Paging, Query()],
) -> PageOut[QuarantinedOut]:
    part = services.offers.quarantined(actor, query.limit, query.cursor)
    return page(request, response, part, QuarantinedOut)


def _asked(query: OffersQuery) -> Asked:
    fields: dict[str, Any] = query.model_dump(exclude={"limit", "cursor"})
    return Asked(**fields)


def flat(found: Found) -> dict[str, Any]:
    """What was found, with its offer's own fields beside the others."""
    shown: dict[str, Any] = {name: getattr(found.offer, name) for name in OfferOut.model_fields}
    beside = {name: getattr(found, name) for name in FoundOut.model_fields.keys() - shown.keys()}
    return shown | beside
