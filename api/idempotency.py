"""`Idempotency-Key`: a repeated POST gives the first answer instead of a second thing.

A route class around the endpoint. The same key with the same request of the same person replays
the stored answer (`Idempotency-Replayed: true`), with another request it is refused, and while the
first one is at work it is told to come back. Only answers of success are stored: an error did
nothing, so the request may be tried again under its key. Answers that hold a secret must not be
stored; such routes are not of this class.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from api.auth import credentials_of, person
from api.problems import InProgressError, KeyReusedError
from api.services import services_of
from provisioner.app import Roost
from provisioner.errors import ConflictError, InvalidError
from provisioner.store import idempotency as memory

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_PATTERN = r"^[!-~]{1,255}$"

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def once_of(request: Request) -> str | None:
    """What names this request, whoever repeats it; None without a key."""
    once: str | None = getattr(request.state, "once", None)
    return once


Once = Annotated[str | None, Depends(once_of)]


class IdempotentRoute(APIRoute):
    """A route whose POST may be repeated safely under a key."""

    def get_route_handler(self) -> _Handler:
        handle = super().get_route_handler()
        if "POST" not in (self.methods or ()):
            return handle

        async def once(request: Request) -> Response:
            key = request.headers.get(HEADER)
            if key is None:
                return await handle(request)
            return await _once(request, key, handle)

        return once


async def _once(request: Request, key: str, handle: _Handler) -> Response:
    if not re.fullmatch(KEY_PATTERN, key):
        raise InvalidError(
            f"{HEADER} must be 1 to 255 visible ASCII characters.", remedy="A UUID will do."
        )
    roost = services_of(request)
    credentials = await credentials_of(request)
    actor = await run_in_threadpool(person, request, roost, credentials)
    fingerprint = _fingerprint(request, await request.body())
    replay = await run_in_threadpool(_begin, roost, actor.id, key, fingerprint)
    if replay is not None:
        return JSONResponse(replay.body, replay.status, headers={REPLAYED: "true"})
    # The services make one thing of it, even if the answer of the first time was lost in a crash.
    request.state.once = f"{actor.id}\n{key}\n{fingerprint}"
    try:
        response = await handle(request)
    except Exception:
        await run_in_threadpool(memory.abandon, roost.store, actor.id, key)
        raise
    await run_in_threadpool(_remember, roost, actor.id, key, response)
    return response


def _begin(roost: Roost, person_id: str, key: str, fingerprint: str) -> memory.Replay | None:
    try:
        return memory.begin(roost.store, person_id, key, fingerprint, roost.clock.now())
    except ConflictError as error:
        raise InProgressError(error.message, remedy=error.remedy) from error
    except InvalidError as error:
        raise KeyReusedError(error.message, remedy=error.remedy) from error


def _remember(roost: Roost, person_id: str, key: str, response: Response) -> None:
    if 200 <= response.status_code < 300:
        body = json.loads(bytes(response.body)) if response.body else None
        memory.finish(roost.store, person_id, key, response.status_code, body)
    else:
        memory.abandon(roost.store, person_id, key)


def _fingerprint(request: Request, body: bytes) -> str:
    """SHA-256 of what was asked: method, path, query and body."""
    sum_ = hashlib.sha256()
    for part in (request.method, request.url.path, request.url.query):
        sum_.update(part.encode() + b"\n")
    sum_.update(body)
    return sum_.hexdigest()
