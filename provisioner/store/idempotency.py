"""Answers of POST requests by the caller's idempotency key, so that a repeat changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from provisioner.errors import ConflictError, InvalidError
from provisioner.store.engine import Store
from provisioner.store.tables import idempotency

KEPT = timedelta(hours=24)
STALE = timedelta(minutes=2)
"""After this long an unanswered key belonged to a process that died; the request may run again."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer given to the first request with this key."""

    status: int
    body: Any


def begin(store: Store, person_id: str, key: str, fingerprint: str, now: datetime) -> Replay | None:
    """Claim a key for one request; the stored answer when it was answered before.

    Raises:
        InvalidError: the key was used for another request.
        ConflictError: the first request with this key is still being answered.
    """
    mine = (idempotency.c.person_id == person_id) & (idempotency.c.key == key)
    with store.write() as connection:
        connection.execute(idempotency.delete().where(idempotency.c.created_at < now - KEPT))
        claimed = connection.execute(_claim(store, person_id, key, fingerprint, now))
        if claimed.first() is not None:
            return None
        row = connection.execute(sa.select(idempotency).where(mine).with_for_update()).one()
        if row.fingerprint != fingerprint:
            raise InvalidError(
                f"The idempotency key {key!r} was used for another request.",
                remedy="Use a new key for a new request.",
            )
        if row.status is not None:
            return Replay(row.status, row.body)
        if row.created_at > now - STALE:
            raise ConflictError(
                f"A request with the idempotency key {key!r} is being answered.",
                remedy="Send it again in a moment.",
            )
        connection.execute(idempotency.update().where(mine).values(created_at=now))
        return None


def finish(store: Store, person_id: str, key: str, status: int, body: Any) -> None:
    """Keep the answer for repeats of the request."""
    with store.write() as connection:
        connection.execute(
            idempotency.update()
            .where(idempotency.c.person_id == person_id, idempotency.c.key == key)
            .values(status=status, body=body)
        )


def abandon(store: Store, person_id: str, key: str) -> None:
    """Forget the claim: the request failed in a way that a repeat may not."""
    with store.write() as connection:
        connection.execute(
            idempotency.delete().where(
                idempotency.c.person_id == person_id,
                idempotency.c.key == key,
                idempotency.c.status.is_(None),
            )
        )


def _claim(
    store: Store, person_id: str, key: str, fingerprint: str, now: datetime
) -> sa.Executable:
    dialect = postgresql if store.engine.dialect.name == "postgresql" else sqlite
    insert: sqlite.Insert | postgresql.Insert = dialect.insert(idempotency)
    row = {"person_id": person_id, "key": key, "fingerprint": fingerprint, "created_at": now}
    return insert.values(row).on_conflict_do_nothing().returning(idempotency.c.key)
