"""Who asks: a bearer token in the Authorization header, and nowhere else.

A token in a query or a cookie is never looked at. What the person may do is the services' business.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.services import Services
from provisioner.errors import UnauthenticatedError
from provisioner.people import Actor

_person = HTTPBearer(
    auto_error=False,
    scheme_name="person",
    description="A person's token, from `roost up` or `roost token create`.",
)
_machine = HTTPBearer(
    auto_error=False,
    scheme_name="machine",
    description="A machine's own token; to register, the one-time token of its user data.",
)

_REMEDY = "Send `Authorization: Bearer <token>`; `roost login` stores a token for the CLI."


def person(
    request: Request,
    services: Services,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_person)],
) -> Actor:
    """The person behind the request's token; raises `UnauthenticatedError`."""
    known: Actor | None = getattr(request.state, "actor", None)
    if known is not None:
        return known
    if credentials is None:
        raise UnauthenticatedError("No bearer token was sent.", remedy=_REMEDY)
    actor = services.people.authenticate(credentials.credentials)
    if actor is None:
        raise UnauthenticatedError("The token is unknown or revoked.", remedy=_REMEDY)
    request.state.actor = actor
    return actor


async def credentials_of(request: Request) -> HTTPAuthorizationCredentials | None:
    """The token of a request, for what must know the person before the endpoint runs."""
    return await _person(request)


def machine_token(
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_machine)],
) -> str:
    """The agent's token, unchecked; raises `UnauthenticatedError` without one."""
    if credentials is None:
        raise UnauthenticatedError("No bearer token was sent.", remedy="Send the machine's token.")
    return credentials.credentials


Asking = Annotated[Actor, Depends(person)]
MachineToken = Annotated[str, Depends(machine_token)]
