"""Attempts to get machines, one after the other and many at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from policies.world import InstanceState
from provisioner.errors import ConflictError, NotFoundError
from provisioner.launches import Outcome
from provisioner.people import Role
from provisioner.store.engine import Store
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ON_DEMAND, World, offer


def test_a_hundred_creates_of_one_name_at_once_make_one_machine(
    store: Store, tmp_path: Path
) -> None:
    world = World(store, tmp_path, {"fake": [offer("a", ON_DEMAND, "0.30")]})

    def create(_: int) -> str | None:
        try:
            return world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
        except ConflictError:
            return None

    with ThreadPoolExecutor(16) as pool:
        made = [id for id in pool.map(create, range(100)) if id is not None]
    assert len(made) == 1
    world.tick_until(lambda: world.state(made[0]) is InstanceState.READY)
    world.tick(5)
    assert len(world.machines()) == 1
    assert world.calls("launch") == 1


def test_attempts_are_seen_by_their_team_and_nobody_else(world: World) -> None:
    for team in ("vision", "speech"):
        world.team(team)
    mine = world.person("ada", "vision")
    other = world.person("ben", "speech", Role.LEAD)
    job = world.running_job("train", mine)
    (seen,) = world.roost.launches.list(mine, 10, None, "train").items
    assert (seen.owner_id, seen.outcome, seen.attempt) == (job, Outcome.LAUNCHED, 1)
    assert world.roost.launches.list(other, 10, None).items == ()
    with pytest.raises(NotFoundError):
        world.roost.launches.list(other, 10, None, job)
    assert len(world.roost.launches.list(world.admin, 10, None).items) == 1


def test_an_attempt_that_was_not_wanted_any_more(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.cloud.scarce.add("fake")
    job = world.submit()
    world.tick(1)
    world.roost.jobs.cancel(world.admin, job)
    world.tick(3)
    outcomes = {a.outcome for a in world.roost.launches.list(world.admin, 50, None, job).items}
    assert outcomes <= {Outcome.FAILED, Outcome.ABANDONED}
