from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from provisioner.errors import InvalidError
from provisioner.store.engine import Store
from provisioner.store.paging import Page, page, position_cursor, position_of, slice_page
from provisioner.store.rows import Row
from provisioner.store.tables import team

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def add(store: Store, id: str, at: datetime) -> None:
    with store.write() as connection:
        connection.execute(
            team.insert().values(id=id, name=f"name of {id}", timezone="UTC", created_at=at)
        )


def one_page(store: Store, limit: int, cursor: str | None) -> Page[str]:
    def id_of(row: Row) -> str:
        return str(row["id"])

    with store.read() as connection:
        return page(connection, team.select(), team, limit, cursor, id_of)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
def test_pages_have_each_item_once_also_those_of_one_instant(store: Store, limit: int) -> None:
    for n in range(9):
        add(store, f"t{n}", NOW + timedelta(microseconds=n // 3))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        got = one_page(store, limit, cursor)
        assert len(got.items) <= limit
        seen += got.items
        if got.next is None:
            break
        cursor = got.next
    assert seen == ["t8", "t7", "t6", "t5", "t4", "t3", "t2", "t1", "t0"]


def test_what_is_added_meanwhile_shifts_nothing(store: Store) -> None:
    for n in range(4):
        add(store, f"t{n}", NOW + timedelta(seconds=n))
    first = one_page(store, 2, None)
    add(store, "new", NOW + timedelta(hours=1))
    assert one_page(store, 2, first.next).items == ("t1", "t0")


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "ä",
        "\ud800",
        encoded(3),
        encoded(["2026-03-02T09:00:00+00:00"]),
        encoded(["2026-03-02T09:00:00", "naive"]),
        encoded(["9999-12-31T23:59:59-23:00", "beyond all time"]),
        encoded(["0001-01-01T00:00:00+23:00", "before all time"]),
        encoded(["2026-03-02T09:00:00+00:00", "\x00"]),
        encoded(["2026-03-02T09:00:00+00:00", "\ud800"]),
        encoded(["2026-03-02T09:00:00+00:00", 4]),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    ],
    ids=range(13),
)
def test_a_cursor_of_somebody_else_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidError, match="cursor"):
        one_page(store, 5, cursor)


def test_lists_at_hand_are_paged_by_position() -> None:
    first = slice_page(list("abcde"), 2, None)
    assert first.items == ("a", "b")
    last = slice_page(list("abcde"), 3, first.next)
    assert (last.items, last.next) == (("c", "d", "e"), None)
    assert slice_page(list("ab"), 5, position_cursor(9)).items == ()


@pytest.mark.parametrize("value", [-1, 2**53, True, 1.5, float("nan"), "3", None, [3]])
def test_a_position_is_a_count(value: object) -> None:
    with pytest.raises(InvalidError):
        position_of(encoded(value))
