"""Machines, and the rehearsal of a spot reclaim."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from api.auth import Asking
from api.idempotency import IdempotentRoute
from api.paging import page
from api.services import Services
from api.values import Money, Number, PageOut, Paging, Ref, View
from api.values import Request as Body
from policies.world import Condition, InstanceState, OwnerKind, PurchaseMode

router = APIRouter(prefix="/v1/instances", tags=["instances"], route_class=IdempotentRoute)


class InstanceOut(View):
    """A machine as it was last seen."""

    id: str
    owner_kind: OwnerKind
    owner_id: str | None
    state: InstanceState
    reason: str
    message: str | None
    conditions: list[Condition]
    provider: str
    region: str
    zone: str
    instance_type: str
    mode: PurchaseMode
    price_per_hour: Money
    currency: str
    machine_id: str | None
    created_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    agent_seen_at: datetime | None
    notice_deadline: datetime | None
    cpu_percent: float | None
    memory_bytes: int | None


class InstancesQuery(Paging):
    """Which machines."""

    live: bool = Field(default=True, description="Only those that may still exist.")


class RehearsalIn(Body):
    """How a reclaim is rehearsed."""

    notice_s: Annotated[Number, Field(ge=0, le=3600)] = Field(
        default=120.0, description="Seconds between the notice and the end of the machine."
    )


@router.get("", summary="Machines one may see")
def list_instances(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[InstancesQuery, Query()],
) -> PageOut[InstanceOut]:
    part = services.instances.list(actor, query.limit, query.cursor, query.live)
    return page(request, response, part, InstanceOut)


@router.get("/{instance}", summary="One machine")
def show_instance(services: Services, actor: Asking, instance: Ref) -> InstanceOut:
    return InstanceOut.model_validate(services.instances.get(actor, instance))


@router.post(
    "/{instance}/reclaim-rehearsal",
    status_code=202,
    summary="Rehearse a spot reclaim",
    description="The machine is taken away as the spot market would: a notice, then the end.",
)
def rehearse_reclaim(
    services: Services, actor: Asking, instance: Ref, rehearsal: RehearsalIn
) -> InstanceOut:
    taken = services.instances.rehearse_reclaim(actor, instance, rehearsal.notice_s)
    return InstanceOut.model_validate(taken)
