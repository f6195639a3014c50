from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import StatementError

from provisioner.store.engine import Store
from provisioner.store.tables import price_point, team

NOW = datetime(2026, 3, 2, 9, 0, 0, 123456, tzinfo=UTC)


def test_instants_come_back_in_utc_to_the_microsecond(store: Store) -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    with store.write() as connection:
        connection.execute(team.insert().values(id="t", name="t", timezone="UTC", created_at=there))
        found = connection.execute(sa.select(team.c.created_at)).scalar_one()
    assert found == NOW
    assert found.utcoffset() == timedelta()


def test_an_instant_without_a_zone_is_refused(store: Store) -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(StatementError, match="needs a time zone"), store.write() as connection:
        connection.execute(team.insert().values(id="t", name="t", timezone="UTC", created_at=naive))


@pytest.mark.parametrize(
    "amount", ["0.1", "0.000000000000000001", "12345678901234567890.123456789012345678", "0"]
)
def test_money_comes_back_exactly(store: Store, amount: str) -> None:
    row = {"series": "s", "at": NOW, "price": Decimal(amount), "currency": "USD"}
    with store.write() as connection:
        connection.execute(price_point.insert().values(row))
        assert connection.execute(sa.select(price_point.c.price)).scalar_one() == Decimal(amount)


def fail_on_the_way(store: Store, row: dict[str, object]) -> None:
    with store.write() as connection:
        connection.execute(team.insert().values(row))
        raise RuntimeError("on the way")


def test_a_failed_write_leaves_nothing(store: Store) -> None:
    row = {"id": "t", "name": "t", "timezone": "UTC", "created_at": NOW}
    with pytest.raises(RuntimeError, match="on the way"):
        fail_on_the_way(store, row)
    with store.read() as connection:
        assert connection.execute(sa.select(team)).all() == []


def test_a_reader_keeps_its_view_and_blocks_no_writer(store: Store) -> None:
    with store.read() as reader:
        assert reader.execute(sa.select(sa.func.count()).select_from(team)).scalar() == 0
        with store.write() as writer:
            writer.execute(team.insert().values(id="t", name="t", timezone="UTC", created_at=NOW))
        assert reader.execute(sa.select(sa.func.count()).select_from(team)).scalar() == 0
