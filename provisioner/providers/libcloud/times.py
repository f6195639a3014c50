"""Instants as clouds write them."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(text: str | None) -> datetime | None:
    """In UTC, which a text without a zone means everywhere here; None for none."""
    if not text:
        return None
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def known(text: str) -> datetime:
    """Of a text that is always there."""
    found = instant(text)
    assert found is not None
    return found
