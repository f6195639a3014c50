"""A quiet round asks the database the same few questions, however much there is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from cost.periods import period_bounds
from policies.world import InstanceState, JobState
from provisioner import ledger
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import World


def statements_of_a_tick(world: World) -> int:
    asked: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    world.clock.set(world.now.replace(microsecond=world.now.microsecond + 1))
    world.call_in()
    sa.event.listen(world.store.engine, "before_cursor_execute", count)
    world.roost.reconciler.tick()
    sa.event.remove(world.store.engine, "before_cursor_execute", count)
    return len(asked)


def fill(world: World, name: str, count: int) -> None:
    for n in range(count):
        world.roost.workstations.create(world.admin, NewWorkstation(f"{name}-{n}"))
        world.submit(f"{name}-{n}", max_runtime_s=10**7)


def settle(world: World) -> None:
    world.tick_until(
        lambda: (
            all(state is InstanceState.READY for state in world.states())
            and not world.roost.jobs.list(world.admin, 1, None, JobState.QUEUED).items
            and not world.roost.jobs.list(world.admin, 1, None, JobState.PLACING).items
        )
    )
    world.tick(3, 61)


def test_a_quiet_tick_does_not_ask_for_each_thing_alone(either: World) -> None:
    world = either
    fill(world, "few", 2)
    settle(world)
    few = statements_of_a_tick(world)
    fill(world, "many", 12)
    settle(world)
    assert len(world.machines()) == 28
    assert statements_of_a_tick(world) <= few
    assert few < 60


def test_a_month_behind_it_a_tick_adds_up_spans_and_not_hours(world: World) -> None:
    world.roost.people.set_budget(world.admin, "default", Decimal(10**6), "USD")
    fill(world, "x", 3)
    settle(world)
    world.tick(2, 20 * 86400)
    with world.store.read() as connection:
        period = period_bounds(world.now, "UTC")
        found = ledger.charges(connection, period, world.now)
        hourly = ledger.charges(connection, period, world.now, hourly=True)
    assert len(found) <= 9 < 1000 < len(hourly)
    assert sum(c.billed_cost or 0 for c in found) == sum(c.billed_cost or 0 for c in hourly)
