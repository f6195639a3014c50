from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.provisioner import world as worlds
from tests.provisioner.jobs.test_interruptions import progress
from tests.provisioner.world import World, registration


def test_where_the_time_went_is_shown_part_by_part(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(agent: worlds.Agent) -> dict[str, Any]:
        parts = {"fetch": 1.5, "packages": 40, "lies": -1, "words": "long"}
        return registration(agent, facts={"cpus": 2, "boot_s": parts})

    monkeypatch.setattr(worlds, "registration", told)
    job = world.submit()
    world.tick(1)
    (attempt,) = world.roost.jobs.get(world.admin, job).attempts
    assert attempt.boot is not None
    assert attempt.boot.first_step_s is None
    world.tick_until(lambda: world.job(job).started_at is not None)
    (attempt,) = world.roost.jobs.get(world.admin, job).attempts
    assert attempt.running_at is not None
    first = attempt.running_at + timedelta(seconds=7)
    progress(world, job, {"event": "step", "step": 1, "at": first.isoformat()})
    (attempt,) = world.roost.jobs.get(world.admin, job).attempts
    boot = attempt.boot
    assert boot is not None
    assert boot.first_step_s == 7.0
    parts = (boot.accept_s, boot.provision_s, boot.boot_s, boot.task_s)
    whole = attempt.running_at - world.row(job).created_at
    assert sum(part for part in parts if part is not None) == whole.total_seconds()
    assert None not in parts
    assert boot.agent_s == {"fetch": 1.5, "packages": 40.0}
    (listed,) = world.roost.jobs.list(world.admin, 10, None).items
    assert listed.attempts[0].boot is None, "lists do without"


def test_a_step_before_the_task_was_seen_to_run_took_no_time(world: World) -> None:
    """The machine tells of its first step by its own clock, and the task is seen a tick later."""
    job = world.running_job()
    (attempt,) = world.roost.jobs.get(world.admin, job).attempts
    assert attempt.running_at is not None
    early = attempt.running_at - timedelta(seconds=1)
    progress(world, job, {"event": "step", "step": 1, "at": early.isoformat()})
    (attempt,) = world.roost.jobs.get(world.admin, job).attempts
    assert attempt.boot is not None
    assert attempt.boot.first_step_s == 0.0
