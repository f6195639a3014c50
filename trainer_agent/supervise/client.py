"""Calls to the control plane over HTTP, and how long to wait after one that failed.

Never puts a token into a URL, a message or a log. Follows no redirect: the token stays with the
host that it was made for.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import random
import ssl
from datetime import UTC
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import trainer_agent
from trainer_agent.clock import Clock

TIMEOUT_S = 10.0
_REPLY_LIMIT_BYTES = 8 << 20
_ADVICE_LIMIT_S = 300.0
_TRY_AGAIN = frozenset({408, 425, 429})


class CallError(Exception):
    """A call failed; the message says which and how."""


class Unavailable(CallError):  # noqa: N818 (a state that passes)
    """Nobody answered, or the answer was "later"; the same call may succeed soon."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(CallError):  # noqa: N818 (a state that may pass)
    """The control plane understood the call and said no."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ControlPlane:
    """One control plane; each call is a connection of its own, so any thread may call."""

    def __init__(self, url: str, clock: Clock, ca: Path | None = None) -> None:
        """`ca` is the PEM file of the only authority that may vouch for it. Raises `OSError`."""
        parts = urlsplit(url)
        self._trusted = _trusting(ca) if parts.scheme == "https" else None
        self._host = parts.hostname or ""
        self._port = parts.port
        self._root = parts.path.rstrip("/")
        self._clock = clock

    def post(
        self, path: str, body: dict[str, Any], token: str, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """POST `body` and return the JSON object of the answer. Raises `CallError`."""
        connection = self._connect(timeout_s)
        try:
            connection.request(
                "POST",
                self._root + quote(path),
                json.dumps(body, ensure_ascii=False).encode(errors="replace"),
                {
                    "Authorization": f"Bearer {token}",
                    "Content-Type": "application/json",
                    "User-Agent": f"roost-agent/{trainer_agent.__version__}",
                },
            )
            reply = connection.getresponse()
            content = reply.read(_REPLY_LIMIT_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{path}: {type(error).__name__}: {error}") from None
        finally:
            connection.close()
        if reply.status >= 500 or reply.status in _TRY_AGAIN:
            advice = self._advice_s(reply.headers.get("Retry-After"))
            raise Unavailable(f"{path}: HTTP {reply.status} {_detail(content)}".strip(), advice)
        if not 200 <= reply.status < 300:
            raise Refused(f"{path}: HTTP {reply.status} {_detail(content)}".strip(), reply.status)
        return _object(path, content)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._trusted is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=timeout_s, context=self._trusted
        )

    def _advice_s(self, header: str | None) -> float | None:
        """Retry-After (RFC 9110 10.2.3), which is seconds or a date, as seconds from now."""
        if header is None:
            return None
        with contextlib.suppress(ValueError):
            return min(max(float(header), 0.0), _ADVICE_LIMIT_S)
        with contextlib.suppress(ValueError):
            at = email.utils.parsedate_to_datetime(header)
            wait_s = (at.replace(tzinfo=at.tzinfo or UTC) - self._clock.now()).total_seconds()
            return min(max(wait_s, 0.0), _ADVICE_LIMIT_S)
        return None


class Backoff:
    """How long to wait after the nth failure in a row: doubling, with jitter, up to a limit.

    The jitter keeps a fleet from coming back in one instant after an outage.
    """

    def __init__(self, first_s: float, limit_s: float, chance: random.Random) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._chance = chance
        self._failures = 0

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, error: Exception) -> float:
        """Seconds to wait now; never less than the control plane asked for."""
        wait_s = min(self._limit_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        wait_s *= self._chance.uniform(0.5, 1.0)
        advice_s = error.retry_after_s if isinstance(error, Unavailable) else None
        return wait_s if advice_s is None else advice_s + wait_s * 0.1


def _trusting(ca: Path | None) -> ssl.SSLContext:
    if ca is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it trusts nobody yet
    context.load_verify_locations(ca)
    return context


def _object(path: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Unavailable(f"{path}: the answer is no JSON object; is ROOST_URL right?")
    return value


def _detail(content: bytes) -> str:
    """What a problem document (RFC 9457) says, in one short line."""
    try:
        problem = json.loads(content)
        text = str(problem.get("detail") or problem.get("title") or "")
    except (ValueError, AttributeError):
        return ""
    return " ".join(text.split())[:300]
