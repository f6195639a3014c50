"""Every error as one shape: RFC 9457 problem JSON.

Turns the error tree, the router's own errors, failed validation and the unforeseen into a
`Problem`. It decides no status but from the error's class, and shows nothing of the inside: an
unforeseen error is logged under an id and only the id is told.
"""

from __future__ import annotations

import http
import logging
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from provisioner import errors
from provisioner.ids import new_id

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("roost.api")

_STATUS: tuple[tuple[type[errors.RoostError], int], ...] = (
    (errors.NotFoundError, 404),
    (errors.ConflictError, 409),
    (errors.RefusedError, 409),
    (errors.InvalidError, 422),
    (errors.UnauthenticatedError, 401),
    (errors.ForbiddenError, 403),
    (errors.ThrottledError, 503),
    (errors.StateError, 503),
    (errors.ProviderError, 502),
)

_TITLES = {
    "invalid": "The request makes no sense",
    "not-found": "No such thing",
    "conflict": "It clashes with what is there",
    "unauthenticated": "No valid token",
    "forbidden": "Not allowed for you",
    "refused": "A policy says no",
    "budget-exceeded": "The budget has no room",
    "state": "The control plane cannot use its state",
    "internal": "Something went wrong inside",
    "too-large": "The request is too large",
    "in-progress": "The same request is still being worked on",
    "key-reused": "The idempotency key belongs to another request",
}

_ROUTER: dict[int, tuple[str, str | None]] = {
    400: ("malformed", "Send one JSON value in UTF-8."),
    404: ("not-found", "Look the path up in /openapi.json."),
    405: ("method-not-allowed", "The Allow header lists the methods of this path."),
    413: ("too-large", "Send less at once."),
}


class InvalidPart(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(examples=["body.cpus"])
    message: str = Field(examples=["Input should be greater than 0"])


class Problem(BaseModel):
    """What went wrong, with which thing, and what to do next (RFC 9457)."""

    type: str = Field(
        description="A stable name of the kind of problem.",
        examples=["urn:roost:problem:budget-exceeded"],
    )
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="What happened, and to which thing.")
    remedy: str | None = Field(default=None, description="What to do next.")
    instance: str = Field(description="The path, or the id under which it was logged.")
    errors: list[InvalidPart] | None = Field(
        default=None, description="Every part of the request that did not pass."
    )


class InProgressError(errors.ConflictError):
    """A request with the same idempotency key has not ended yet."""

    code = "in-progress"
    retry_after_s = 1.0


class KeyReusedError(errors.InvalidError):
    """The idempotency key came before, with another request."""

    code = "key-reused"


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem."""
    app.add_exception_handler(errors.RoostError, _on_roost_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_router_error)


class Unforeseen:
    """ASGI middleware: the last resort, which logs under an id and answers 500 with the id."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception:
            occurrence = new_id("err")
            _log.exception("%s %s failed: %s", scope["method"], scope["path"], occurrence)
            if started:
                raise
            await _internal(occurrence)(scope, receive, send)


def response_for(error: errors.RoostError, path: str) -> JSONResponse:
    """The answer to an error of the tree, for the request of `path`."""
    headers = {}
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    if status == http.HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(retry_after_s)))
    return _respond(status, error.code, error.message, error.remedy, path, headers=headers)


async def _on_roost_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.RoostError)
    if isinstance(error, errors.StateError):
        _log.error("%s %s: %s", request.method, request.url.path, error)
    return response_for(error, request.url.path)


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    parts = [_part(each) for each in error.errors()]
    detail = "; ".join(f"{part.where}: {part.message}" for part in parts[:3])
    if len(parts) > 3:
        detail += f"; and {len(parts) - 3} more"
    remedy = "Correct what `errors` names; /openapi.json says what is expected."
    return _respond(422, "invalid", detail, remedy, request.url.path, parts=parts)


async def _on_router_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code, remedy = _ROUTER.get(error.status_code, ("http", None))
    detail, headers = error.detail, dict(error.headers or {})
    if error.status_code == http.HTTPStatus.NOT_FOUND:
        detail = "No such path."
    elif error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"{request.method} is no method of this path."
        methods = _methods(request)
        if methods:  # else the path is the framework's own, and so is the header
            headers["Allow"] = ", ".join(methods)
    return _respond(error.status_code, code, detail, remedy, request.url.path, headers=headers)


def _methods(request: Request) -> list[str]:
    """All methods of the path: the router names only those of the first route that matches."""
    routes: list[APIRoute] = request.app.state.endpoints
    matching = [route for route in routes if route.path_regex.match(request.url.path)]
    if not matching:
        return []
    closest = min(matching, key=lambda route: len(route.param_convertors)).path
    return sorted({m for r in matching if r.path == closest for m in r.methods or ()})


def _internal(occurrence: str) -> JSONResponse:
    detail = f"The control plane met an error it does not know; it is logged as {occurrence}."
    remedy = "Try again; if it stays, look for this id in the control plane's log."
    return _respond(500, "internal", detail, remedy, f"urn:roost:occurrence:{occurrence}")


def _respond(
    status: int,
    code: str,
    detail: str,
    remedy: str | None,
    instance: str,
    *,
    parts: Iterable[InvalidPart] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    problem = Problem(
        type=f"urn:roost:problem:{code}",
        title=_TITLES.get(code) or http.HTTPStatus(status).phrase,
        status=status,
        detail=printable(detail),
        remedy=None if remedy is None else printable(remedy),
        instance=quote(instance, safe="/:-._~", errors="replace"),
        errors=None if parts is None else list(parts),
    )
    return JSONResponse(
        problem.model_dump(exclude_none=True), status, headers=headers, media_type=MEDIA_TYPE
    )


def _part(error: Mapping[str, Any]) -> InvalidPart:
    where = ".".join(str(step) for step in error["loc"])
    context = error.get("ctx", {}).get("error")
    message = str(error["msg"]).removeprefix("Value error, ")
    if isinstance(context, str):
        message = f"{message}: {context}"
    return InvalidPart(where=printable(where)[:200], message=printable(message)[:500])


def printable(text: str) -> str:
    """`text` as it can be sent: lone surrogates, which no UTF-8 has, are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
