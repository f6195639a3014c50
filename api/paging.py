"""Lists in parts: the body's `next` and the Link header say the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import BaseModel

from api.values import PageOut

M = TypeVar("M", bound=BaseModel)


class Part(Protocol):
    """What a service's list gives."""

    @property
    def items(self) -> Iterable[object]: ...

    @property
    def next(self) -> str | None: ...


def page(request: Request, response: Response, part: Part, model: type[M]) -> PageOut[M]:
    """`part` as it is shown, with a Link to the part after it on `response` (RFC 8288)."""
    if part.next is not None:
        query = dict(request.query_params) | {"cursor": part.next}
        response.headers["Link"] = f'<{request.url.path}?{urlencode(query)}>; rel="next"'
    items = [model.model_validate(item) for item in part.items]
    return PageOut[M](items=items, next=part.next)
