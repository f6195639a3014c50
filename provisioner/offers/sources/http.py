"""Reading a price list over HTTP: in bounded time and size, with errors of ours."""

from __future__ import annotations

from math import nan
from typing import Any

import httpx

from provisioner.errors import ProviderError

TIMEOUT_S = 30.0
MOST_BYTES = 256 << 20
MOST_PAGES = 10_000


def get_json(
    client: httpx.Client,
    url: str,
    params: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Any:
    """One document.

    Raises:
        ProviderError: it cannot be had, or is no JSON object. The message names the host and path
            alone: a key may be in the rest of the URL.
    """
    where = str(httpx.URL(url).copy_with(query=None, fragment=None))
    try:
        with client.stream("GET", url, params=params, headers=headers, timeout=TIMEOUT_S) as reply:
            reply.raise_for_status()
            body = bytearray()
            for chunk in reply.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ProviderError(f"{where} sends more than {MOST_BYTES >> 20} MiB")
        answer = httpx.Response(200, content=bytes(body)).json()
    except httpx.HTTPStatusError as error:
        raise ProviderError(f"{where} answers {error.response.status_code}") from None
    except httpx.HTTPError as error:
        raise ProviderError(f"{where} does not answer: {type(error).__name__}") from None
    except ValueError:
        raise ProviderError(f"{where} answers with what is no JSON") from None
    if not isinstance(answer, dict):
        raise ProviderError(f"{where} answers with what is no JSON object")
    return answer


def rows_of(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a page; what is no row is left aside.

    Raises:
        ProviderError: the page has no list of that name.
    """
    rows = answer.get(name)
    if not isinstance(rows, list):
        raise ProviderError(f"the price list has another form than it had: no list of {name}")
    return [row for row in rows if isinstance(row, dict)]


def number_of(value: object) -> float:
    """A number of a row; NaN where there is none, so that the row is put aside and not the list."""
    try:
        return float(str(value))
    except ValueError:
        return nan
