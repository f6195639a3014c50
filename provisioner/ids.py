"""Identifiers and secrets: the only place that draws random ones."""

from __future__ import annotations

import hashlib
import secrets
import uuid

_REQUEST = uuid.UUID("0b0e3f2b-6a52-5c0e-8f55-0a4a4f1f6f0d")
_LAUNCH = uuid.UUID("6f7f3f0e-2f0c-5f63-9d0e-3b1b7a3a9c11")


def new_id(prefix: str) -> str:
    """A random identifier such as `job_9f2c...`; sortable by nothing, guessable by nobody."""
    return f"{prefix}_{uuid.uuid4().hex[:20]}"


def repeatable_id(prefix: str, once: str | None) -> str:
    """The id of what one request makes: the same for the same request, a new one for None.

    So a request that is repeated after a crash finds what it made the first time.
    """
    if once is None:
        return new_id(prefix)
    made = uuid.uuid5(_REQUEST, "\n".join((prefix, once)))
    return f"{prefix}_{made.hex[:20]}"


def new_secret(prefix: str) -> str:
    """A bearer secret with 256 bits of randomness; its prefix says what it is for."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """The form in which a secret is stored: SHA-256, hex. With 256 random bits it needs no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()


def launch_id(
    installation: str, owner: str, generation: int, attempt: int, slot: int, offer_id: str
) -> str:
    """The client token, name and tag of one launch.

    The same launch always has the same id, so a repeated call cannot make a second machine; another
    offer or attempt has another one, so a token is never sent twice with different parameters.
    """
    key = "\n".join((installation, owner, str(generation), str(attempt), str(slot), offer_id))
    return str(uuid.uuid5(_LAUNCH, key))
