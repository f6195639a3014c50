"""Policies: check, plan, apply; and why something was or was not done."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from api.auth import Asking
from api.idempotency import IdempotentRoute
from api.paging import page
from api.routes.offers import OfferOut
from api.services import Services
from api.values import Name, PageOut, Paging, Ref, Text, View
from api.values import Request as Body
from policies.plan import ActionKind, Rank, TargetKind
from policies.problems import Severity

router = APIRouter(prefix="/v1", tags=["policies"], route_class=IdempotentRoute)

Filename = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-][A-Za-z0-9 ._/-]{0,254}$")]
PolicyText = Annotated[Text, Field(max_length=200_000)]
_EXAMPLE: JsonDict = {"text": "policy: house\nversion: 1\n", "filename": "house.yaml"}


class PolicyIn(Body):
    """A policy file."""

    text: PolicyText
    filename: Filename = Field(default="policy.yaml", description="For the reasons' file:line.")
    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})


class PlanIn(Body):
    """A policy file to try; without one the policies that hold."""

    text: PolicyText | None = None
    filename: Filename | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{}, _EXAMPLE]})


class PolicyProblemOut(View):
    """One thing that is wrong with a policy file."""

    file: str
    line: int
    severity: Severity
    message: str
    hint: str


class CheckOut(View):
    """What is wrong with a policy file; nothing if it is empty."""

    problems: list[PolicyProblemOut]


class PolicyOut(View):
    """A version of a policy."""

    id: str
    name: str
    version: int
    filename: str
    text: str
    active: bool
    applied_by: str
    applied_at: datetime


class ReasonOut(View):
    """Why: the rule, where it is written, what was seen."""

    rank: Rank
    rule: str
    text: str
    policy: str | None
    where: str | None
    observed: str | None
    threshold: str | None


class RejectedOut(View):
    """An alternative that was not taken."""

    what: str
    reasons: list[ReasonOut]


class DecisionOut(View):
    """What would be done about one target, and why."""

    target_kind: TargetKind
    target_id: str
    action: ActionKind
    because: list[ReasonOut]
    instead_of: list[RejectedOut]
    instance_id: str | None
    offers: list[OfferOut]


class PlanOut(View):
    """All decisions of one moment. Nothing of it was done."""

    snapshot_id: str
    decisions: list[DecisionOut]


class ExplainedOut(View):
    """A decision that was taken, in words and in full."""

    decision_id: str
    snapshot_id: str
    at: datetime
    action: ActionKind
    text: str
    body: dict[str, Any]


class ExplanationOut(View):
    """The decisions about one target, newest first."""

    items: list[ExplainedOut]


class ReplayOut(View):
    """A stored moment decided again."""

    snapshot_id: str
    identical: bool
    text: str


class PolicyVersion(Body):
    """Which version; without it the one that holds."""

    version: Annotated[int, Field(ge=1, le=2_000_000_000)] | None = None


@router.post("/policies/check", summary="Check a policy file")
def check_policy(services: Services, actor: Asking, policy: PolicyIn) -> CheckOut:  # noqa: ARG001
    problems = services.policies.check(policy.text, policy.filename)
    return CheckOut(problems=[PolicyProblemOut.model_validate(each) for each in problems])


@router.post("/policies/plan", summary="What would be done now, without doing it")
def plan_policy(services: Services, actor: Asking, policy: PlanIn) -> PlanOut:
    return PlanOut.model_validate(services.policies.plan(actor, policy.text, policy.filename))


@router.post("/policies", status_code=201, summary="Apply a policy file")
def apply_policy(services: Services, actor: Asking, policy: PolicyIn) -> PolicyOut:
    return PolicyOut.model_validate(services.policies.apply(actor, policy.text, policy.filename))


@router.get("/policies", summary="Policies that hold")
def list_policies(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    paging: Annotated[Paging, Query()],
) -> PageOut[PolicyOut]:
    part = services.policies.list(actor, paging.limit, paging.cursor)
    return page(request, response, part, PolicyOut)


@router.get("/policies/{policy}", summary="One policy")
def show_policy(
    services: Services, actor: Asking, policy: Name, query: Annotated[PolicyVersion, Query()]
) -> PolicyOut:
    return PolicyOut.model_validate(services.policies.get(actor, policy, query.version))


@router.get("/explain/{target}", summary="Why a target is as it is")
def explain_target(services: Services, actor: Asking, target: Ref) -> ExplanationOut:
    explained = services.policies.explain(actor, target)
    return ExplanationOut(items=[ExplainedOut.model_validate(each) for each in explained])


@router.get("/snapshots/{snapshot}/replay", summary="Decide a stored moment again")
def replay_snapshot(services: Services, actor: Asking, snapshot: Ref) -> ReplayOut:
    return ReplayOut.model_validate(services.policies.replay(actor, snapshot))
