"""Teams, the people in them, and their tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from api.auth import Asking
from api.idempotency import IdempotentRoute
from api.paging import page
from api.services import Services
from api.values import Name, PageOut, Paging, Ref, Text, View
from api.values import Request as Body
from provisioner.people import Role

router = APIRouter(prefix="/v1", tags=["people"], route_class=IdempotentRoute)
secrets_router = APIRouter(prefix="/v1", tags=["people"])


class PersonOut(View):
    """A person."""

    id: str
    name: str
    team_id: str | None
    team_name: str | None
    role: Role
    created_at: datetime


class MeOut(View):
    """Whose token this is."""

    id: str
    name: str
    team_id: str | None
    team_name: str | None
    role: Role


class NewPersonIn(Body):
    """A person to be: members and leads belong to a team."""

    name: Name
    team: Ref | None = Field(default=None, description="Id or name of the team.")
    role: Role = Role.MEMBER
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "ada", "team": "vision", "role": "member"}]}
    )


class TokenOut(View):
    """A token, without its secret."""

    id: str
    person_id: str
    person_name: str
    label: str
    created_at: datetime
    revoked_at: datetime | None


class NewTokenIn(Body):
    """A token to be."""

    person: Ref = Field(description="Id or name of the person it speaks for.")
    label: Text = Field(min_length=1, max_length=100, description="Where it will be used.")
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"person": "ada", "label": "laptop"}]}
    )


class NewTokenOut(View):
    """A new token and its secret, which is shown this once."""

    token: TokenOut
    secret: str


@router.get("/me", summary="Whose token this is")
def show_me(actor: Asking) -> MeOut:
    return MeOut.model_validate(actor)


@router.get("/people", summary="People one may see")
def list_people(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    paging: Annotated[Paging, Query()],
) -> PageOut[PersonOut]:
    part = services.people.people(actor, paging.limit, paging.cursor)
    return page(request, response, part, PersonOut)


@router.post("/people", status_code=201, summary="Add a person")
def create_person(services: Services, actor: Asking, new: NewPersonIn) -> PersonOut:
    person = services.people.create_person(actor, new.name, new.team, new.role)
    return PersonOut.model_validate(person)


@router.get("/tokens", summary="Tokens one may see, without their secrets")
def list_tokens(
    request: Request,
    response: Response,
    services: Services,
    actor: Asking,
    paging: Annotated[Paging, Query()],
) -> PageOut[TokenOut]:
    part = services.people.tokens(actor, paging.limit, paging.cursor)
    return page(request, response, part, TokenOut)


@secrets_router.post(
    "/tokens",
    status_code=201,
    summary="Make a token",
    description="The answer holds the secret, this once. It is not stored, so that an "
    "`Idempotency-Key` has no effect here: a repeated call makes another token.",
)
def create_token(
    services: Services, actor: Asking, new: NewTokenIn, response: Response
) -> NewTokenOut:
    token, secret = services.people.create_token(actor, new.person, new.label)
    response.headers["Cache-Control"] = "no-store"
    return NewTokenOut(token=TokenOut.model_validate(token), secret=secret)


@router.delete("/tokens/{token}", status_code=204, summary="Revoke a token")
def revoke_token(services: Services, actor: Asking, token: Ref) -> None:
    services.people.revoke_token(actor, token)
