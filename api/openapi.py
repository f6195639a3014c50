"""The OpenAPI 3.1 document: what FastAPI derives, and the problems each operation may give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from api import idempotency
from api.problems import MEDIA_TYPE, Problem

INFO: dict[str, Any] = {
    "title": "Roost",
    "version": "1",
    "summary": "Workstations and preemption-tolerant training jobs, and what they cost.",
    "description": (
        "Errors are RFC 9457 problems. Lists come in parts: follow `next`, or the Link header. "
        "Every POST of people takes an `Idempotency-Key`, but for the making of a token. Money is "
        "a decimal string with its currency beside it; times are RFC 3339 in UTC."
    ),
}

_EXAMPLES: dict[int, tuple[str, str, str, str]] = {
    400: ("malformed", "Bad Request", "The body is no JSON.", "Send one JSON value in UTF-8."),
    401: ("unauthenticated", "No valid token", "The token is unknown or revoked.", "roost login"),
    403: ("forbidden", "Not allowed for you", "Only an admin applies policies.", "Ask an admin."),
    404: ("not-found", "No such thing", "There is no job digits.", "roost job list"),
    409: (
        "budget-exceeded",
        "The budget has no room",
        "Team vision has 3.10 USD left and this may cost 4.00 USD.",
        "Ask the team's lead for a larger budget, or ask for a cheaper machine.",
    ),
    413: ("too-large", "The request is too large", "4194304 bytes at most.", "Send less at once."),
    422: ("invalid", "The request makes no sense", "body.cpus: must be positive", "Correct it."),
    500: ("internal", "Something went wrong inside", "It is logged as err_4c1e.", "Try again."),
    502: ("provider", "Bad Gateway", "Provider local said no.", "Look at `roost status`."),
    503: ("state", "The control plane cannot use its state", "The disk is full.", "Free some."),
}


def operation_id(route: APIRoute) -> str:
    """The endpoint's name is its operation id."""
    return route.name


def install(app: FastAPI) -> None:
    """Make `app.openapi()` give the complete document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(**INFO, routes=app.routes)
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    for path, method, operation in _operations(document):
        _add_problems(path, method, operation)
        _add_headers(path, method, operation)
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def _add_problems(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    for status in sorted(_statuses(path, method, operation)):
        code, title, detail, remedy = _EXAMPLES[status]
        example = {
            "type": f"urn:roost:problem:{code}",
            "title": title,
            "status": status,
            "detail": detail,
            "remedy": remedy,
            "instance": path,
        }
        schema = {"$ref": "#/components/schemas/Problem"}
        responses[str(status)] = {
            "description": title,
            "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
        }
        if status == 401:
            responses["401"]["headers"] = {"WWW-Authenticate": _header("The scheme to use.")}


def _statuses(path: str, method: str, operation: dict[str, Any]) -> set[int]:
    statuses = {500, 503}
    if "security" in operation:
        statuses |= {401, 403}
    if operation.get("parameters"):
        statuses |= {404, 422}
    if "requestBody" in operation:
        statuses |= {400, 404, 413, 422}
    if method != "get":
        statuses |= {409, 413, 422, 502}
    if path == "/v1/agent/wheel":
        statuses |= {404}
    return statuses


def _add_headers(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    of_people = {"person": []} in operation.get("security", [])
    if method == "post" and of_people and path != "/v1/tokens":
        operation.setdefault("parameters", []).append(
            {
                "name": idempotency.HEADER,
                "in": "header",
                "required": False,
                "description": "A repeated request with the same key gives the first answer.",
                "schema": {"type": "string", "pattern": idempotency.KEY_PATTERN},
            }
        )
        for status in responses:
            if status.startswith("2"):
                responses[status].setdefault("headers", {})[idempotency.REPLAYED] = _header(
                    "`true` when this is the answer of an earlier request."
                )
    parameters = {each["name"] for each in operation.get("parameters", ())}
    if method == "get" and "limit" in parameters:
        responses["200"].setdefault("headers", {})["Link"] = _header(
            'The part after this one, as `<...>; rel="next"`.'
        )


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "required": False, "schema": {"type": "string"}}
