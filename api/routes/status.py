"""How the control plane is: for people, and for whatever restarts it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import Field

from api.auth import Asking
from api.services import Services
from api.values import View
from policies.world import PurchaseMode, QuotaUnit

router = APIRouter(tags=["status"])


class ProviderOut(View):
    """A provider, and how fresh its listing is."""

    name: str
    listed_at: datetime | None
    stale: bool
    message: str | None = Field(description="What is wrong with its listing.")
    offered_at: datetime | None = Field(description="When it last told what it sells.")
    offers_message: str | None


class CooldownOut(View):
    """Offers that are not tried for a while."""

    scope: str
    until: datetime
    reason: str


class ClosureOut(View):
    """Offers that cannot be bought until somebody mends it."""

    scope: str
    reason: str
    remedy: str


class QuotaOut(View):
    """A limit of a cloud account, and how much of it is used."""

    name: str
    provider: str
    region: str
    types: list[str]
    mode: PurchaseMode | None
    unit: QuotaUnit
    limit: float
    used: float


class QuotasOut(View):
    """All limits that the providers tell."""

    items: list[QuotaOut]


class StatusOut(View):
    """The control plane."""

    version: str
    installation_id: str
    time: datetime
    reconciler_holder: str | None
    epoch: int | None
    last_tick_at: datetime | None
    tick_ms: float | None
    providers: list[ProviderOut]
    cooldowns: list[CooldownOut]
    closures: list[ClosureOut]


class HealthOut(View):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ReadyOut(View):
    """The process and its database answer."""

    status: Literal["ready"] = "ready"


@router.get("/v1/status", summary="How the control plane is")
def show_status(services: Services, actor: Asking) -> StatusOut:  # noqa: ARG001
    return StatusOut.model_validate(services.status())


@router.get("/v1/quotas", summary="Limits of the cloud accounts, and their use")
def list_quotas(services: Services, actor: Asking) -> QuotasOut:  # noqa: ARG001
    return QuotasOut(items=[QuotaOut.model_validate(q) for q in services.market.quotas])


@router.get("/healthz", summary="Whether the process answers")
def show_health() -> HealthOut:
    return HealthOut()


@router.get("/readyz", summary="Whether the database answers too")
def show_readiness(services: Services) -> ReadyOut:
    services.status()
    return ReadyOut()
