"""The small query modules, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from cost.usage import UsageKind
from policies.world import InstanceState, JobState
from provisioner.errors import ConflictError
from provisioner.providers.contract import PricePoint
from provisioner.store import (
    commands,
    cooldowns,
    instances,
    jobs,
    journal,
    ledger,
    people,
    targets,
    telemetry,
    workstations,
)
from provisioner.store.engine import Store
from provisioner.store.ledger import Fact
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import World

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
I = InstanceState


def test_cooldowns_double_up_to_their_limit_and_start_anew_after_a_while(store: Store) -> None:
    base, now, spans = timedelta(minutes=2), NOW, []
    with store.write() as connection:
        for _ in range(6):
            cooldowns.cool(connection, "fake/r", "none", base, now)
            (active,) = cooldowns.active(connection, now)
            spans.append((active.until - now) / timedelta(minutes=1))
            now = active.until + SECOND
        assert spans == [2, 4, 8, 16, 30, 30]
        assert cooldowns.active(connection, now) == ()
        later = now + cooldowns.LONGEST
        cooldowns.cool(connection, "fake/r", "none", base, later)
        (active,) = cooldowns.active(connection, later)
        assert active.until - later == base
        cooldowns.clear(connection, "fake/r")
        assert cooldowns.active(connection, later) == ()


def test_a_stray_keeps_the_time_of_its_first_sight(store: Store) -> None:
    with store.write() as connection:
        first = cooldowns.see_stray(connection, "fake", "m", "l", NOW)
        again = cooldowns.see_stray(connection, "fake", "m", "l", NOW + SECOND)
        assert first["first_seen_at"] == again["first_seen_at"] == NOW
        cooldowns.forget_stray(connection, "fake", "m")
        anew = cooldowns.see_stray(connection, "fake", "m", "l", NOW + SECOND)
        assert anew["first_seen_at"] == NOW + SECOND


def test_a_fact_is_counted_once_and_a_price_never_changes(store: Store) -> None:
    fact = Fact("ins", UsageKind.STARTED, NOW)
    with store.write() as connection:
        ledger.add_events(connection, [fact, fact], NOW)
        ledger.add_events(connection, [fact, Fact("ins", UsageKind.ENDED, NOW)], NOW + SECOND)
        ledger.add_events(connection, [], NOW)
        assert len(ledger.events_for(connection, ["ins"])) == 2
        assert ledger.events_for(connection, []) == []
        for price in ("0.1", "0.2"):
            ledger.add_prices(connection, "s", [PricePoint(NOW, Decimal(price), "USD")])
        ledger.add_prices(connection, "s", [PricePoint(NOW - SECOND, Decimal(3), "USD")])
        found = ledger.prices_for(connection, ["s", "none"])
    assert [p.price for p in found["s"]] == [3, Decimal("0.1")]
    assert list(found) == ["s"]


def test_thousands_of_resources_are_asked_for_at_once(store: Store) -> None:
    with store.write() as connection:
        ledger.add_events(connection, [Fact("ins_9", UsageKind.STARTED, NOW)], NOW)
        found = ledger.events_for(connection, [f"ins_{n}" for n in range(70_000)])
        instances.count_listed(connection, [f"ins_{n}" for n in range(70_000)], NOW)
    assert [event.instance_id for event in found] == ["ins_9"]


def test_when_something_was_lost(store: Store) -> None:
    with store.write() as connection:
        assert ledger.lost_at(connection, "ins") is None
        for seconds in (5, 9, 7):
            fact = Fact("ins", UsageKind.LOST, NOW + seconds * SECOND, estimated=True)
            ledger.add_events(connection, [fact], NOW)
        assert ledger.lost_at(connection, "ins") == NOW + 9 * SECOND


def test_the_journal_keeps_the_order_of_one_instant(store: Store) -> None:
    with store.write() as connection:
        for n in range(5):
            journal.record(connection, NOW, f"k{n}", "x", note=n)
        journal.record(connection, NOW, "other", "y")
        assert [e["kind"] for e in journal.events_of(connection, "x")] == [
            f"k{n}" for n in range(5)
        ]


def test_a_state_is_left_once(either: World) -> None:
    """Of two who move the same row, the second is told."""
    world = either
    job = world.running_job()
    row, machine = world.job(job), world.row(job)
    with world.store.write() as connection:
        jobs.move(connection, row, JobState.CANCELLED, "person", world.now)
        with pytest.raises(ConflictError, match="no longer running"):
            jobs.move(connection, row, JobState.SUCCEEDED, "completed", world.now)
        instances.move(connection, machine, I.TERMINATING, "x", world.now)
        with pytest.raises(ConflictError, match="no longer ready"):
            instances.move(connection, machine, I.DRAINING, "x", world.now)
        with pytest.raises(ConflictError, match="cannot go from ready to planned"):
            instances.move(connection, machine, I.PLANNED, "x", world.now)


def test_targets_are_found_by_name_or_id_and_by_those_who_may_see_them(either: World) -> None:
    world = either
    world.team("vision")
    mina = world.person("mina", "vision")
    desk = world.ready_desk("desk", mina)
    job = world.submit("train", mina)
    instance = world.row(desk).id
    with world.store.read() as connection:

        def find(ref: str, team: str | None = mina.team_id, admin: bool = False) -> str | None:
            return targets.target_id(connection, team, admin, ref)

        assert (find("desk"), find(desk), find("train")) == (desk, desk, job)
        assert find(instance) == instance
        assert find("vision") == find(mina.team_id or "") == "vision"
        for ref in ("desk", desk, job, instance, "vision", "nothing"):
            assert find(ref, world.admin.team_id) is None
            assert (find(ref, None, admin=True) is None) == (ref == "nothing")


def test_names_and_zones(either: World) -> None:
    world = either
    world.roost.people.create_team(world.admin, "vision", "Asia/Kolkata")
    with world.store.read() as connection:
        assert set(people.names(connection).values()) == {"default", "vision", "admin"}
        assert people.timezones(connection) == (("default", "UTC"), ("vision", "Asia/Kolkata"))
        assert people.anybody(connection)


def test_shipped_bytes_have_an_end_for_each_node(either: World) -> None:
    world = either
    job = world.running_job()
    task = world.agent(job).task["id"]
    with world.store.write() as connection:
        assert telemetry.log_end(connection, task, 0) == 0
        telemetry.add_log(connection, task, 0, 0, 5, "hello")
        telemetry.add_log(connection, task, 1, 0, 3, "two")
        telemetry.add_progress(connection, task, 0, 0, 9, [{"step": 1}])
        ends = [telemetry.log_end(connection, task, n) for n in (0, 1, 2)]
        assert ends == [5, 3, 0]
        assert telemetry.progress_end(connection, task, 0) == 9
        assert telemetry.log_chunks(connection, job, 1, 10) == ["two"]
        assert telemetry.progress_records(connection, job) == [{"step": 1, "attempt": 1}]


def test_commands_are_pending_until_their_first_answer(either: World) -> None:
    world = either
    desk = world.ready_desk()
    ids = [world.roost.workstations.exec(world.admin, desk, [str(n)]).id for n in range(3)]
    machine = world.row(desk).id
    with world.store.write() as connection:
        assert {c["id"] for c in commands.pending(connection, machine)} == set(ids)
        assert commands.answer(connection, ids[0], "done", {"exit_code": 0}, world.now)
        assert not commands.answer(connection, ids[0], "failed", {}, world.now)
        commands.fail_unanswerable(connection, world.now)
        assert len(commands.pending(connection, machine)) == 2, "the machine can still answer"


def test_desks_without_a_machine_know_since_when(either: World) -> None:
    world = either
    made = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    created = world.now

    def since() -> datetime | None:
        with world.store.read() as connection:
            row = workstations.get(connection, made)
        assert row is not None
        return row.waiting_since

    world.tick(3)
    assert since() == created
    world.tick_until(lambda: world.state(made) is I.READY)
    world.tick(1)
    assert since() is None
    world.cloud.terminate(world.row(made).machine_id or "")
    world.tick_until(lambda: world.states(made)[0] is I.TERMINATED, seconds=1)
    assert since() == world.now
    world.roost.workstations.stop(world.admin, made)
    world.tick(2)
    assert since() is None
