"""The attempts to get machines."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from api.auth import Asking
from api.paging import page
from api.services import Services
from api.values import Money, PageOut, Paging, Ref, View
from policies.world import OwnerKind, PurchaseMode
from provisioner.launches import Outcome

router = APIRouter(prefix="/v1/launches", tags=["instances"])


class LaunchOut(View):
    """One attempt to get a machine of one offer."""

    id: str = Field(description="The instance's id.")
    owner_kind: OwnerKind
    owner_id: str | None
    attempt: int
    offer_id: str = Field(description="provider/region/zone/type/mode")
    mode: PurchaseMode
    price_per_hour: Money
    currency: str
    outcome: Outcome
    tries: int = Field(description="How often the provider was called.")
    error: str | None = Field(description="The class of the provider's last error.")
    message: str | None = Field(description="The provider's own words.")
    created_at: datetime
    answered_at: datetime | None


class LaunchesQuery(Paging):
    """Whose attempts."""

    target: Ref | None = Field(default=None, description="A workstation, job or instance.")


@router.get("", summary="Attempts to get a machine, newest first")
def list_launches(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[LaunchesQuery, Query()],
) -> PageOut[LaunchOut]:
    part = services.launches.list(actor, query.limit, query.cursor, query.target)
    return page(request, response, part, LaunchOut)
