"""Pages of a listing: in a stable order, continued from an opaque cursor."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from provisioner.errors import InvalidError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and the cursor of the page after them; None at the end."""

    items: tuple[T, ...]
    next: str | None = None


def page(
    connection: Connection,
    query: sa.Select[Any],
    table: sa.Table,
    limit: int,
    cursor: str | None,
    make: Callable[[RowMapping], T],
) -> Page[T]:
    """Newest first by (created_at, id): what is added meanwhile shifts nothing."""
    if cursor is not None:
        at, id = _decode(cursor)
        key = sa.tuple_(table.c.created_at, table.c.id)
        query = query.where(key < sa.tuple_(sa.bindparam("at", at, table.c.created_at.type), id))
    query = query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit + 1)
    rows = list(connection.execute(query).mappings())
    more = len(rows) > limit
    rows = rows[:limit]
    following = _encode(rows[-1]["created_at"], rows[-1]["id"]) if more else None
    return Page(tuple(make(row) for row in rows), following)


def slice_page(items: list[T], limit: int, cursor: str | None) -> Page[T]:
    """A page of a list that is at hand, by position."""
    start = 0 if cursor is None else _position(cursor)
    end = start + limit
    return Page(tuple(items[start:end]), position_cursor(end) if end < len(items) else None)


def position_cursor(position: int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def _position(cursor: str) -> int:
    value = _loads(cursor)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise _bad(cursor)
    return value


def position_of(cursor: str | None) -> int:
    """The position that a cursor of `position_cursor` names; 0 without one."""
    return 0 if cursor is None else _position(cursor)


def _encode(at: datetime, id: str) -> str:
    text = json.dumps([at.astimezone(UTC).isoformat(), id])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decode(cursor: str) -> tuple[datetime, str]:
    value = _loads(cursor)
    match value:
        case [str(at), str(id)]:
            try:
                id.encode()
                moment = datetime.fromisoformat(at)
                if moment.tzinfo is not None and "\x00" not in id:
                    return moment.astimezone(UTC), id
            except (ValueError, OverflowError):
                raise _bad(cursor) from None
    raise _bad(cursor)


def _loads(cursor: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, binascii.Error, UnicodeError, RecursionError):
        raise _bad(cursor) from None


def _bad(cursor: str) -> InvalidError:
    return InvalidError(
        f"The cursor {cursor[:80]!r} is none of ours.",
        remedy="Take it from the `next` of a page, or leave it out to start at the beginning.",
    )
