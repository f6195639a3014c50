"""How large a request may be."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 4 * 1024 * 1024


class BodyLimit:
    """ASGI middleware: a body of more than `MAX_BODY_BYTES` ends in 413, however it is sent.

    The error is raised where the endpoint reads the body, so that it becomes a problem like any
    other and a path that reads no body is not slowed down.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = _declared_bytes(scope)
        seen = 0

        async def receiving() -> Message:
            nonlocal seen
            if declared > MAX_BODY_BYTES:
                raise _too_large()
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > MAX_BODY_BYTES:
                raise _too_large()
            return message

        await self.app(scope, receiving, send)


def _declared_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _too_large() -> HTTPException:
    return HTTPException(413, f"A request may have {MAX_BODY_BYTES} bytes at most.")
