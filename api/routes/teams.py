"""Teams and their budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from api.auth import Asking
from api.idempotency import IdempotentRoute
from api.paging import page
from api.services import Services
from api.values import Currency, Money, MoneyIn, Name, PageOut, Paging, Ref, View
from api.values import Request as Body

router = APIRouter(prefix="/v1/teams", tags=["teams"], route_class=IdempotentRoute)


class TeamOut(View):
    """A team and its monthly budget, if it has one."""

    id: str
    name: str
    timezone: str = Field(description="IANA zone in which its months and hours are counted.")
    created_at: datetime
    budget_amount: Money | None
    budget_currency: str | None


class NewTeamIn(Body):
    """A team to be."""

    name: Name
    timezone: str = Field(
        default="UTC",
        max_length=64,
        pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$",
        examples=["Europe/Berlin"],
    )
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "vision", "timezone": "Europe/Berlin"}]}
    )


class BudgetIn(Body):
    """What a team may spend a month."""

    amount: MoneyIn
    currency: Currency = "USD"
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"amount": "2500.00", "currency": "USD"}]}
    )


@router.get("", summary="Teams one may see")
def list_teams(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    paging: Annotated[Paging, Query()],
) -> PageOut[TeamOut]:
    part = services.people.teams(actor, paging.limit, paging.cursor)
    return page(request, response, part, TeamOut)


@router.post("", status_code=201, summary="Add a team")
def create_team(services: Services, actor: Asking, new: NewTeamIn) -> TeamOut:
    return TeamOut.model_validate(services.people.create_team(actor, new.name, new.timezone))


@router.get("/{team}", summary="One team")
def show_team(services: Services, actor: Asking, team: Ref) -> TeamOut:
    return TeamOut.model_validate(services.people.team(actor, team))


@router.put("/{team}/budget", summary="Set a team's monthly budget")
def set_budget(services: Services, actor: Asking, team: Ref, budget: BudgetIn) -> TeamOut:
    changed = services.people.set_budget(actor, team, budget.amount, budget.currency)
    return TeamOut.model_validate(changed)
