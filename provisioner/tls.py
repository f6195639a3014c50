"""The control plane's certificate: whether it fits its key and its name, and who vouches for it."""

from __future__ import annotations

import ssl
from pathlib import Path

from provisioner.errors import StateError

_FLIGHTS = 6
"""More than a handshake takes."""


def pinned(certificate: Path | None, key: Path | None, ca: Path | None) -> str | None:
    """The certificates that machines and people are to trust, and no others, as PEM text.

    Those of `ca` where it is named, else the certificate itself where it is its own authority; None
    where the authorities that a system knows will do.

    Raises:
        StateError: a file cannot be used.
    """
    if ca is not None:
        text = _read(ca, "tls_ca")
        trusting(text)
        return text
    if certificate is None or key is None:
        return None
    text = _read(certificate, "tls_certificate")
    return text if _shakes_hands(serving(certificate, key), trusting(text), None) is None else None


def check_name(certificate: Path, key: Path, ca: str | None, host: str) -> None:
    """That `host`, which machines call, is what the certificate says.

    Raises:
        StateError: it is not, or whoever vouches for it is not `ca` (None: is not looked at).
    """
    if ca is None:
        return
    trouble = _shakes_hands(serving(certificate, key), trusting(ca), host)
    if trouble is not None:
        raise StateError(
            f"The certificate {certificate} does not vouch for {host}: {trouble}.",
            remedy="Take one with that name (subjectAltName), name its authority as `tls_ca`, "
            "or set `public_url` to the name that is in it.",
        )


def serving(certificate: Path, key: Path) -> ssl.SSLContext:
    """The server's side. Raises `StateError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise StateError(
            f"The certificate {certificate} with the key {key} cannot be used: {error}.",
            remedy="Name PEM files: the certificate (with what lies between it and its authority) "
            "as `tls_certificate`, its key without a password as `tls_key`.",
        ) from error
    return context


def trusting(ca: str) -> ssl.SSLContext:
    """The client's side, which trusts the certificates in `ca` only. Raises `StateError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it trusts nobody yet
    try:
        context.load_verify_locations(cadata=ca)
    except (OSError, ValueError) as error:
        raise StateError(
            f"What is to be trusted is no certificate in PEM: {error}.",
            remedy="Name a file that begins with -----BEGIN CERTIFICATE-----.",
        ) from error
    return context


def _shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None) -> str | None:
    """Let both sides meet in memory; None when they agree, else what is wrong."""
    client.check_hostname = host is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_FLIGHTS):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return error.reason or str(error)
    return None


def _read(path: Path, name: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(
            f"The file {path} of `{name}` cannot be read: {error}.",
            remedy="Name a PEM file that the control plane's user may read.",
        ) from error


def _no_password() -> str:
    raise ValueError("it is locked with a password")
