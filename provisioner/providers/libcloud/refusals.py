"""What clouds answer when they say no, in the provider's errors: one table for each cloud.

libcloud passes errors on untyped: a status and the text of the answer. A cloud's own lines are
tried first, then what all clouds have in common, then the status alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from xml.etree import ElementTree  # (answers of a cloud that we chose, over TLS)

import requests
from libcloud.common.exceptions import BaseHTTPError
from libcloud.common.types import InvalidCredsError, LibcloudError

from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaError,
    ThrottledError,
)

LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """`pattern` is looked for in `STATUS answer`, whatever its case."""

    pattern: str
    kind: type[ProviderError]
    remedy: str | None = None


class CloudSaid(BaseHTTPError):  # noqa: N818 (it is an answer)
    """An answer of 400 or more, whole; a subclass of what libcloud itself reacts to."""

    def __init__(self, status: int, body: str, retry_after_s: float | None) -> None:
        super().__init__(status, body)  # type: ignore[no-untyped-call]
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s


FAILURES = (BaseHTTPError, LibcloudError, requests.RequestException, OSError, ValueError)
"""What a call through libcloud fails with; what else is raised is a fault of ours."""
_IN_COMMON = (
    Refusal(r"rate.?limit|too many requests|throttl|RequestLimitExceeded", ThrottledError),
    Refusal(r"quota|limit.?(exceeded|reached)|exceed\w* (your|the|account).*limit", QuotaError),
    Refusal(
        r"insufficient.?\w*.?capacity|out of (stock|capacity)|no valid host|sold.?out"
        r"|not enough (resources|capacity)|capacity.?(not available|exceeded|exhausted)"
        r"|(currently|temporarily) unavailable|AllocationFailed|resources? exhausted",
        CapacityError,
    ),
)
_REMEDIES: dict[type[ProviderError], str] = {
    QuotaError: "Ask the cloud for a higher limit, or stop something.",
    AuthError: "Give the provider valid credentials that may do this; see its settings.",
    Ambiguous: "It may have happened: its state is looked at before it is tried again.",
    ThrottledError: "It is tried again by itself.",
}


def refusal(
    error: Exception, table: tuple[Refusal, ...], who: str, *, mutating: bool
) -> ProviderError:
    """What became of a call that failed. `mutating`: whether it may have taken effect."""
    if isinstance(error, CloudSaid):
        return _said(error, table, who, mutating=mutating)
    if isinstance(error, InvalidCredsError):
        return _made(AuthError, f"{who} does not accept the credentials: {_short(str(error))}")
    if isinstance(error, BaseHTTPError):
        return _said(CloudSaid(error.code, str(error), None), table, who, mutating=mutating)
    told = f"{who} did not answer as it should: {_short(str(error)) or type(error).__name__}"
    if mutating and not _never_sent(error):
        return _made(Ambiguous, told)
    return ProviderError(told, remedy="It is tried again.")


def _said(
    said: CloudSaid, table: tuple[Refusal, ...], who: str, *, mutating: bool
) -> ProviderError:
    text = f"{said.status} {said.body}"
    if said.status == 429:
        table = ()
    told = f"{who} refuses: {message_of(said.body) or f'status {said.status}'}"
    for line in (*table, *(_IN_COMMON if said.status not in (401, 429) else ())):
        if re.search(line.pattern, text, re.IGNORECASE | re.DOTALL):
            return _made(line.kind, told, line.remedy, said.retry_after_s)
    return _made(_by_status(said.status, mutating=mutating), told, None, said.retry_after_s)


def _by_status(status: int, *, mutating: bool) -> type[ProviderError]:
    if status in (401, 403):
        return AuthError
    if status == 404:
        return NotFound
    if status == 429:
        return ThrottledError
    if status in (400, 405, 413, 422):
        return InvalidRequest
    if status >= 500 and mutating:
        return Ambiguous
    return ProviderError


def _made(
    kind: type[ProviderError],
    told: str,
    remedy: str | None = None,
    retry_after_s: float | None = None,
) -> ProviderError:
    remedy = remedy or _REMEDIES.get(kind)
    if issubclass(kind, ThrottledError):
        return kind(told, remedy=remedy, retry_after_s=retry_after_s)
    return kind(told, remedy=remedy)


def _never_sent(error: Exception) -> bool:
    """Whether no connection was made, so that nothing can have happened."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return True
    return isinstance(error, requests.exceptions.ConnectionError) and bool(
        re.search(r"NewConnectionError|NameResolutionError|SSLError|ProxyError", repr(error))
    )


def message_of(body: str) -> str:
    """The sentence for people in an answer of JSON or XML; the answer itself where none is."""
    body = body.strip()
    found = ""
    if body.startswith(("{", "[")):
        try:
            found = _sentence(json.loads(body))
        except ValueError:
            found = ""
    elif body.startswith("<"):
        found = _of_xml(body)
    return _short(found or body)


def _sentence(value: object) -> str:
    """The first text under a name that says what is wrong, the outermost one first."""
    if isinstance(value, list):
        return next((text for one in value if (text := _sentence(one))), "")
    if not isinstance(value, dict):
        return ""
    code = value.get("code")
    for name in ("message", "reason", "error_description", "error"):
        if isinstance(value.get(name), str):
            lead = f"{code}: " if isinstance(code, str) else ""
            return f"{lead}{value[name]}"
    return next((text for one in value.values() if (text := _sentence(one))), "")


def _of_xml(body: str) -> str:
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 (see the import)
    except ElementTree.ParseError:
        return ""
    code, message = (
        next((one.text or "" for one in root.iter() if one.tag.rpartition("}")[2] == name), "")
        for name in ("Code", "Message")
    )
    return f"{code}: {message}" if code else message


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"
