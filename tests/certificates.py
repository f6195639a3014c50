"""Certificates for tests: an authority, what it vouches for, and ones that vouch for themselves."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_FROM, _UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Certificate:
    """Two PEM files."""

    path: Path
    key: Path

    @property
    def text(self) -> str:
        return self.path.read_text()


def certificate(
    folder: Path,
    name: str,
    *hosts: str,
    by: Certificate | None = None,
    authority: bool = False,
    until: datetime = _UNTIL,
) -> Certificate:
    """One for `hosts` (names or addresses), vouched for by `by` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signing = subject, key
    if by is not None:
        issuer = x509.load_pem_x509_certificate(by.path.read_bytes()).subject
        loaded = serialization.load_pem_private_key(by.key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signing = loaded
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(authority or by is None, None), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    made = builder.sign(signing, hashes.SHA256())
    found = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    found.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    found.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return found


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
