"""The way to a cloud: libcloud's own connection (who signs in and signs), and little beside it.

A connection of libcloud keeps its answer as its own state, so that two threads on one of them get
each other's answers. A `Wire` therefore belongs to one thread; `connections.py` sees to that.

What differs from libcloud's ways: a call takes 20 s at most, an answer of 400 or more is told
whole (libcloud reduces it to a text, each driver in another way), nothing is waited for, nothing
is sent twice but what was not let in, and one address may stand for all of a cloud's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from libcloud.common.base import Connection, Response
from libcloud.http import LibcloudConnection

from provisioner.providers.libcloud.refusals import FAILURES, CloudSaid, Refusal, refusal

TIMEOUT_S = 20.0


class Wire:
    """Calls of one cloud's API over one connection, for one thread."""

    def __init__(
        self,
        connect: Callable[[], Any],
        refusals: tuple[Refusal, ...],
        who: str,
        *,
        dumps: bool = True,
    ) -> None:
        """`connect` may ask the cloud for a token. `dumps`: whether JSON is made of a body here,
        which some of libcloud's connections do themselves."""
        self._connect = connect
        self._refusals = refusals
        self._who = who
        self._dumps = dumps
        self._connection: Any = None

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self._call("GET", path, params, None, mutating=False)

    def ask(self, path: str, body: Any) -> Any:
        """A question that has to be POSTed."""
        return self._call("POST", path, None, body, mutating=False)

    def post(self, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        return self._call("POST", path, params, body)

    def put(self, path: str, body: Any, params: Mapping[str, Any] | None = None) -> Any:
        return self._call("PUT", path, params, body)

    def patch(self, path: str, body: Any, params: Mapping[str, Any] | None = None) -> Any:
        return self._call("PATCH", path, params, body)

    def delete(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self._call("DELETE", path, params, None)

    def _call(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        body: Any,
        *,
        mutating: bool = True,
    ) -> Any:
        """The answer as libcloud parsed it.

        Raises:
            ProviderError: as the cloud's table has it.
        """
        signed_in_before = self._connection is not None
        try:
            return self._send(method, path, params, body)
        except FAILURES as error:
            expired = isinstance(error, CloudSaid) and error.status == 401 and signed_in_before
            if not expired:
                raise refusal(error, self._refusals, self._who, mutating=mutating) from error
        # A token has been revoked, or the secret was renewed: sign in anew, once.
        self._connection = None
        return self._call(method, path, params, body, mutating=mutating)

    def _send(self, method: str, path: str, params: Mapping[str, Any] | None, body: Any) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        # Each mutable argument is new: libcloud writes into them.
        arguments: dict[str, Any] = {"method": method, "params": dict(params or {})}
        if body is not None:
            arguments["data"] = json.dumps(body) if self._dumps else body
        return self._connection.request(path, **arguments).object


def driver_class(base: type[Any], endpoint: str | None) -> type[Any]:
    """A driver whose connections behave as said above; libcloud's own stays as it is."""
    changed: dict[str, Any] = {
        name: connection_class(kind, endpoint)
        for name in dir(base)
        if name.lower().endswith("connectioncls") and (kind := getattr(base, name, None))
    }
    # libcloud's `__new__` chooses among versions of a driver, and this is the one.
    changed["__new__"] = lambda kind, *_, **__: object.__new__(kind)
    return type(base.__name__, (base,), changed)


def connection_class(base: type[Connection], endpoint: str | None) -> type[Any]:
    """The same for a connection."""
    return type(
        base.__name__,
        (base,),
        {
            "conn_class": _http(endpoint),
            "responseCls": _told_whole(base.responseCls),
            "timeout": TIMEOUT_S,
        },
    )


def _http(endpoint: str | None) -> type[LibcloudConnection]:
    class Http(LibcloudConnection):
        def __init__(self, host: str, port: int, secure: Any = None, **kwargs: Any) -> None:
            kwargs["timeout"] = TIMEOUT_S
            super().__init__(host, port, secure, **kwargs)  # type: ignore[no-untyped-call]
            if endpoint is not None:
                self.host = endpoint.rstrip("/")

    return Http


def _told_whole(base: type[Response]) -> type[Any]:
    class Told(base):  # type: ignore[valid-type, misc]
        def __init__(self, response: Any, connection: Any) -> None:
            if response.status_code >= 400:
                after = response.headers.get("retry-after", "")
                raise CloudSaid(
                    response.status_code, response.text, float(after) if after.isdigit() else None
                )
            super().__init__(response, connection)

        def success(self) -> bool:
            return True

    return Told
