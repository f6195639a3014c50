"""Whether machines elsewhere can call in: a cloud machine that cannot would be paid for nothing.

What an address says is known at once (`judge`); whether it answers is asked through it (`look`), by
a thread that may wait. Nothing is asked by `closures`, so a tick may call it.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from policies.world import Closure
from provisioner import tls
from provisioner.clock import Clock
from provisioner.providers.contract import Provider

LOOK_EVERY_S = 5.0
"""How often `look` is to be called."""
_TIMEOUT_S = 5.0
_KEPT = timedelta(minutes=5)
"""How long a good answer is believed."""
_MEND = "Set `public_url` to an https:// address at which other machines reach this control plane"
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
"""RFC 1918 and RFC 4193."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_PATH = "/v1/agent/wheel"
_OK = 200


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why machines elsewhere could not call in, and what to do about it."""

    reason: str
    remedy: str

    def closing(self, provider: str) -> Closure:
        return Closure(provider, self.reason, self.remedy)


_NOT_LOOKED = Trouble(
    "it is not known yet whether this control plane can be reached at its public_url",
    "Try again in a few seconds.",
)


def judge(url: str) -> Trouble | None:
    """What is wrong with an address by itself; a name is not looked up.

    Plain http is for addresses of private networks only: machines' tokens travel there.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if parts.scheme not in ("http", "https") or not host:
        return Trouble(f"{url} is no http or https address", f"{_MEND}.")
    address = _address(host)
    if host == "localhost" or host.endswith(".localhost") or (address and address.is_loopback):
        return Trouble(f"{url} is this host's own loopback address", f"{_MEND}.")
    if address is not None and (address.is_unspecified or address.is_link_local):
        return Trouble(f"{url} is an address that other machines cannot call", f"{_MEND}.")
    if parts.scheme == "http" and address is not None and not _is_private(address):
        return _in_the_open(url)
    return None


class Reachability:
    """Looks through `url` itself, its name and its certificate included."""

    def __init__(
        self, url: str, clock: Clock, wheel_sha256: Callable[[], str], ca: str | None = None
    ) -> None:
        """`wheel_sha256` tells our own answer from anybody else's at that address."""
        self._url = url
        self._clock = clock
        self._wheel_sha256 = wheel_sha256
        self._ca = ca
        self._standing = judge(url)
        self._found: Trouble | None = _NOT_LOOKED
        self._good_until: datetime | None = None

    def look(self) -> None:
        """Ask, unless a good answer is fresh. Takes 5 seconds at most, several after a fault."""
        now = self._clock.now()
        fresh = self._good_until is not None and now < self._good_until
        if self._standing is not None or fresh:
            return
        self._found = self._ask()
        self._good_until = now + _KEPT if self._found is None else None

    def trouble(self) -> Trouble | None:
        """What is known to be in the way; asks nothing."""
        return self._standing or self._found

    def closures(self, providers: Mapping[str, Provider]) -> tuple[Closure, ...]:
        """Each provider whose machines are elsewhere, while they could not call in."""
        trouble = self.trouble()
        if trouble is None:
            return ()
        apart = (
            name
            for name, provider in sorted(providers.items())
            if not provider.capabilities.same_host
        )
        return tuple(trouble.closing(name) for name in apart)

    def _ask(self) -> Trouble | None:
        """Fetch the head of what each machine fetches first; the rest is not read."""
        parts = urlsplit(self._url)
        secure, host = parts.scheme == "https", parts.hostname or ""
        connection = self._connection(secure, host, parts.port)
        try:
            if not secure and not all(_is_private(address) for address in _resolved(host)):
                return _in_the_open(self._url)
            path = parts.path.rstrip("/") + _PATH
            connection.request("GET", path, headers={"Connection": "close"})
            reply = connection.getresponse()
            status, etag = reply.status, reply.headers.get("ETag", "")
        except ssl.SSLCertVerificationError as error:
            return Trouble(
                f"{self._url} shows a certificate that machines would refuse: "
                f"{error.verify_message}",
                "Name the authority that vouches for it as `tls_ca`, or mend the certificate.",
            )
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            return Trouble(f"{self._url} does not answer from here: {error}", f"{_MEND}.")
        finally:
            connection.close()
        if status != _OK or etag.removeprefix("W/").strip('"') != self._wheel_sha256():
            return Trouble(
                f"{self._url} answers {status}, and not as this control plane does",
                f"{_MEND}; see what else listens there.",
            )
        return None

    def _connection(self, secure: bool, host: str, port: int | None) -> http.client.HTTPConnection:
        if not secure:
            return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        trusted = ssl.create_default_context() if self._ca is None else tls.trusting(self._ca)
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=trusted)


def _in_the_open(url: str) -> Trouble:
    return Trouble(
        f"{url} is plain http, and secrets of machines would cross the internet unencrypted",
        f"{_MEND}; `tls_certificate` and `tls_key` let the control plane serve TLS itself.",
    )


def _address(host: str) -> Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _resolved(host: str) -> list[Address]:
    """What a name stands for. Raises `OSError`."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    texts = {str(entry[4][0]).partition("%")[0] for entry in found}
    return [address for address in map(_address, sorted(texts)) if address is not None]


def _is_private(address: Address) -> bool:
    return any(address in network for network in _PRIVATE)
