"""A launch that a crash cut off half way is sent again; here it cannot be the same one any more."""

from __future__ import annotations

from pathlib import Path

from policies.world import InstanceState
from provisioner.errors import InvalidRequest
from provisioner.store.engine import Store
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import World


def test_a_launch_that_was_cut_off_and_cannot_be_finished_is_replaced(
    store: Store, tmp_path: Path
) -> None:
    world = World(store, tmp_path)
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    world.cloud.lose_reply("launch")
    world.cloud.fail_next("launch", InvalidRequest("it was launched with other parameters"))
    world.tick_until(lambda: world.states()[-1:] == [InstanceState.READY])
    assert [row.reason for row in world.rows(desk.id)] == ["terminated", "agent-ready"]
    assert len(world.machines()) == 1
    assert world.roost.workstations.get(world.admin, desk.id).phase == "ready"
