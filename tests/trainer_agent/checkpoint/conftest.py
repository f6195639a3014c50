"""A store in a folder of its own, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from trainer_agent.checkpoint.files import Reached, nothing
from trainer_agent.checkpoint.store import CheckpointStore


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


Open = Callable[..., CheckpointStore]
Save = Callable[..., str]


@pytest.fixture
def open_at() -> Open:
    """The store at a path or an address, not prepared."""

    def open_store(where: Path | str, keep: int = 2, reached: Reached = nothing) -> CheckpointStore:
        uri = where.as_uri() if isinstance(where, Path) else where
        return CheckpointStore(uri, keep, clock=StoppedClock(), reached=reached)

    return open_store


@pytest.fixture
def opened(tmp_path: Path, open_at: Open) -> Open:
    """The store in `tmp_path / "c"`, prepared."""

    def open_store(keep: int = 2, reached: Reached = nothing) -> CheckpointStore:
        store = open_at(tmp_path / "c", keep, reached)
        store.prepare()
        return store

    return open_store


@pytest.fixture
def save() -> Save:
    """Saves a state that tells its step."""

    def save_state(store: CheckpointStore, step: int, size: int = 500) -> str:
        weights = torch.full((size,), float(step))
        state = {"weights": weights, "step": step, "generators": ("a", (1, 2))}
        return store.save(step, state, position=step * 8, fingerprint="f")

    return save_state
