from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from provisioner.errors import ConflictError, InvalidError
from provisioner.store.engine import Store
from provisioner.store.idempotency import KEPT, STALE, Replay, abandon, begin, finish

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_of_many_at_once_one_may_act(store: Store) -> None:
    together = Barrier(8)

    def send(_n: int) -> str:
        together.wait()
        try:
            return "acts" if begin(store, "per", "key", "f", NOW) is None else "replays"
        except ConflictError:
            return "waits"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(send, range(8))) == ["acts", *["waits"] * 7]


def test_a_repeat_gets_the_first_answer(store: Store) -> None:
    assert begin(store, "per", "key", "f", NOW) is None
    finish(store, "per", "key", 201, {"id": "ws_1"})
    assert begin(store, "per", "key", "f", NOW) == Replay(201, {"id": "ws_1"})
    assert begin(store, "other", "key", "f", NOW) is None


def test_a_key_is_for_one_request(store: Store) -> None:
    begin(store, "per", "key", "f", NOW)
    with pytest.raises(InvalidError, match="another request"):
        begin(store, "per", "key", "g", NOW)


def test_a_request_that_failed_may_come_again(store: Store) -> None:
    begin(store, "per", "key", "f", NOW)
    abandon(store, "per", "key")
    assert begin(store, "per", "key", "f", NOW) is None


def test_an_answered_request_cannot_be_abandoned(store: Store) -> None:
    begin(store, "per", "key", "f", NOW)
    finish(store, "per", "key", 201, {})
    abandon(store, "per", "key")
    assert begin(store, "per", "key", "f", NOW) == Replay(201, {})


def test_the_claim_of_a_dead_process_is_taken_over_once(store: Store) -> None:
    begin(store, "per", "key", "f", NOW)
    later = NOW + STALE
    assert begin(store, "per", "key", "f", later) is None
    with pytest.raises(ConflictError):
        begin(store, "per", "key", "f", later)


def test_answers_are_forgotten_after_a_day(store: Store) -> None:
    begin(store, "per", "key", "f", NOW)
    finish(store, "per", "key", 201, {})
    assert begin(store, "per", "key", "g", NOW + KEPT + timedelta(seconds=1)) is None
