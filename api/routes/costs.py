"""What it costs: totals, usage intervals, the FOCUS export, the report."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Field

from api.auth import Asking
from api.paging import page
from api.services import Services
from api.values import Instant, Money, PageOut, Paging, Ref, View
from api.values import Request as Body

router = APIRouter(prefix="/v1", tags=["costs"])


class GroupBy(StrEnum):
    """What a row of costs stands for."""

    PERSON = "person"
    JOB = "job"
    WORKSTATION = "workstation"
    MODE = "mode"
    DAY = "day"
    TEAM = "team"


class CostRowOut(View):
    """The costs of one person, job, day, ..."""

    key: str
    name: str
    cost: Money
    on_demand_cost: Money
    hours: Annotated[float, Field(ge=0)]
    estimated: bool = Field(description="Whether a part of it is not closed yet.")


class CostOut(View):
    """What a period cost, what it would have cost on demand, and where the budget stands."""

    team_name: str | None
    start: datetime
    end: datetime
    currency: str
    total: Money
    on_demand_total: Money
    saved: Money
    rows: list[CostRowOut]
    unknown_prices: int = Field(description="Intervals with no known price; not in the totals.")
    budget_amount: Money | None
    budget_spent: Money | None
    budget_committed: Money | None
    budget_remaining: Money | None
    forecast_low: Money | None
    forecast: Money | None
    forecast_high: Money | None
    forecast_note: str | None


class IntervalOut(View):
    """An observed span in which a machine or a home existed and cost money."""

    resource_id: str
    owner_kind: str
    owner_id: str | None
    start: datetime
    end: datetime
    open: bool
    mode: str
    price_per_hour: Money | None
    cost: Money | None
    estimated: bool


class PeriodQuery(Body):
    """Which team and when; without a period the current month."""

    team: Ref | None = None
    start: Instant | None = None
    end: Instant | None = None


class CostQuery(PeriodQuery):
    """Which costs, and a row for what."""

    group_by: GroupBy = GroupBy.PERSON


class IntervalsQuery(Paging):
    """Whose intervals."""

    owner: Ref | None = Field(default=None, description="A workstation or a job.")


class TeamQuery(Body):
    """Which team."""

    team: Ref | None = None


class CsvResponse(Response):
    """A CSV document."""

    media_type = "text/csv"


@router.get("/costs", summary="What a period cost")
def show_costs(services: Services, actor: Asking, query: Annotated[CostQuery, Query()]) -> CostOut:
    shown = services.costs.show(actor, query.team, query.start, query.end, query.group_by)
    return CostOut.model_validate(shown)


@router.get("/usage-intervals", summary="Observed usage of the last 400 days, oldest first")
def list_usage_intervals(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    query: Annotated[IntervalsQuery, Query()],
) -> PageOut[IntervalOut]:
    part = services.costs.intervals(actor, query.limit, query.cursor, query.owner)
    return page(request, response, part, IntervalOut)


@router.get(
    "/costs/focus.csv", response_class=CsvResponse, summary="Charges in FOCUS columns, as CSV"
)
def export_focus(
    services: Services, actor: Asking, query: Annotated[PeriodQuery, Query()]
) -> CsvResponse:
    text = services.costs.focus_csv(actor, query.team, query.start, query.end)
    headers = {"Content-Disposition": 'attachment; filename="focus.csv"'}
    return CsvResponse(text, headers=headers)


@router.get("/reports/current", response_class=HTMLResponse, summary="The current month's report")
def show_report(
    services: Services, actor: Asking, query: Annotated[TeamQuery, Query()]
) -> HTMLResponse:
    # The report needs nothing from anywhere: whatever got into it must not load or run.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    headers = {"Content-Security-Policy": policy}
    return HTMLResponse(services.costs.report_html(actor, query.team), headers=headers)
