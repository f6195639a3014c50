from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from provisioner.errors import StaleEpochError
from provisioner.store import journal
from provisioner.store.engine import Store
from provisioner.store.lease import Lease, acquire, current, database_time, fenced, release


def race(store: Store, names: list[str], ttl_s: float = 60.0) -> list[Lease]:
    """All try at the same moment; those who got it."""
    together = Barrier(len(names))

    def contend(name: str) -> Lease | None:
        together.wait()
        return acquire(store, name, ttl_s)

    with ThreadPoolExecutor(len(names)) as pool:
        return [lease for lease in pool.map(contend, names) if lease is not None]


@pytest.fixture
def names() -> list[str]:
    return [f"rec-{n}" for n in range(16)]


def test_of_sixteen_on_an_empty_database_one_wins(store: Store, names: list[str]) -> None:
    (winner,) = race(store, names)
    assert winner.epoch == 1
    with store.read() as connection:
        assert current(connection) == (winner.holder, 1)


def test_of_sixteen_after_an_expired_one_one_wins_with_the_next_epoch(
    store: Store, names: list[str]
) -> None:
    assert acquire(store, "gone", 0.0) == Lease("gone", 1)
    (winner,) = race(store, names)
    assert winner.epoch == 2


def test_renewing_keeps_the_epoch_and_others_out(store: Store) -> None:
    held = acquire(store, "a", 60)
    assert acquire(store, "a", 60, held) == held
    assert acquire(store, "b", 60) is None


def test_a_restarted_holder_takes_its_own_back_as_a_new_epoch(store: Store) -> None:
    before = acquire(store, "a", 60)
    assert acquire(store, "a", 60) == Lease("a", 2)
    assert before is not None
    with pytest.raises(StaleEpochError), fenced(store, before):
        pass


def test_a_released_lease_is_free_at_once(store: Store) -> None:
    held = acquire(store, "a", 60)
    assert held is not None
    release(store, held)
    with store.read() as connection:
        assert current(connection) == (None, 1)
    assert acquire(store, "b", 60) == Lease("b", 2)


def test_a_former_holder_releases_nothing(store: Store) -> None:
    former = acquire(store, "a", 0.0)
    assert former is not None
    acquire(store, "b", 60)
    release(store, former)
    assert acquire(store, "c", 60) is None


def test_the_epoch_only_grows(store: Store) -> None:
    epochs = [lease.epoch for n in range(6) if (lease := acquire(store, f"r{n}", 0.0))]
    assert epochs == [1, 2, 3, 4, 5, 6]


def test_a_stale_epoch_writes_nothing(store: Store) -> None:
    stale = acquire(store, "a", 0.0)
    assert stale is not None
    acquire(store, "b", 60)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(StaleEpochError, match="from epoch 1 to 2"), fenced(store, stale) as tx:
        journal.record(tx, at, "never", "x")
    with store.read() as connection:
        assert journal.events_of(connection, "x") == []


def test_nobody_takes_over_in_the_middle_of_a_fenced_write(store: Store) -> None:
    """What an old holder has begun to write is either committed before, or refused."""
    held = acquire(store, "a", 0.0)
    assert held is not None
    with ThreadPoolExecutor(1) as pool:
        with fenced(store, held) as connection:
            taken = pool.submit(acquire, store, "b", 60.0)
            journal.record(connection, datetime(2026, 1, 1, tzinfo=UTC), "mine", "x")
            assert not taken.done()
        assert taken.result(20) == Lease("b", 2)


def test_time_is_the_databases(store: Store) -> None:
    with store.read() as connection:
        first, second = database_time(connection), database_time(connection)
    assert first.tzinfo is not None
    assert first <= second < first + timedelta(minutes=1)
