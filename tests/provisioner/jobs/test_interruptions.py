"""A job goes on after its machine was taken, from where its checkpoint left it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from policies.world import InstanceState, JobState
from provisioner.jobs.settle import NEVER_STARTED_LIMIT, SHIPPING_LIMIT
from provisioner.store import jobs, ledger
from tests.provisioner.world import SPOT, START, World

I, J = InstanceState, JobState


def progress(world: World, owner_id: str, *records: dict[str, object]) -> None:
    agent = world.agent(owner_id)
    at = getattr(agent, "offset", 0)
    end = at + 100
    body = {"task_id": agent.task["id"], "offset": at, "next_offset": end, "records": records}
    assert world.roost.agents.progress(agent.token, body) == {"next_offset": end}
    agent.offset = end  # type: ignore[attr-defined]


def reserved(world: World) -> Decimal:
    with world.store.read() as connection:
        held = ledger.open_reservations(connection, world.admin.team_id or "")
    return sum((r.amount for r in held), Decimal())


def test_a_notice_drains_requeues_and_the_next_attempt_resumes(either: World) -> None:
    world = either
    job = world.running_job()
    progress(
        world,
        job,
        {"event": "step", "step": 40, "total_steps": 100, "at": "2026-03-02T09:01:00+00:00"},
        {"event": "checkpoint", "step": 40},
    )
    first = world.row(job)
    deadline = world.cloud.reclaim(first.machine_id or "", notice_s=60)
    world.agent(job).notices = [{"kind": "reclaim", "deadline": deadline.isoformat()}]
    world.tick(1)
    assert world.rows(job)[0].state in (I.DRAINING, I.TERMINATING)
    assert world.agent(job).answer["phase"] in ("drain", "stop")
    world.tick_until(lambda: world.job(job).attempt == 2, seconds=1)
    assert world.now < deadline, "it is placed anew before the machine is taken"
    world.tick_until(lambda: world.job(job).state is J.RUNNING)
    progress(world, job, {"event": "resumed", "step": 40})
    before, now = world.roost.jobs.get(world.admin, job).attempts
    assert (before.state, before.reason, before.notice) == ("interrupted", "reclaim-notice", True)
    assert (before.step, before.checkpoint_step) == (40, 40)
    assert before.first_step_at is not None
    assert (now.state, now.resumed_step, now.number) == ("open", 40, 2)
    assert world.agent(job).answer["tasks"][0]["attempt"] == 2
    world.agent(job).exits(0)
    world.tick_until(lambda: not world.machines())
    view = world.roost.jobs.get(world.admin, job)
    assert (view.state, view.reason, view.attempt) == (J.SUCCEEDED, "completed", 2)
    assert reserved(world) == 0


def test_a_kill_without_notice_requeues(world: World) -> None:
    job = world.running_job()
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick_until(lambda: world.job(job).attempt == 2, seconds=1)
    world.tick_until(lambda: world.job(job).state is J.RUNNING)
    before = world.roost.jobs.get(world.admin, job).attempts[0]
    assert (before.state, before.reason, before.notice) == ("interrupted", "reclaimed", False)
    assert reserved(world) > 0


@pytest.mark.parametrize(
    ("exited", "state", "reason"),
    [
        ({"exit_code": 0}, J.SUCCEEDED, "completed"),
        ({"exit_code": 75}, J.QUEUED, "task-left"),
        ({"exit_code": 1}, J.FAILED, "task-failed"),
        ({"exit_code": 127}, J.FAILED, "task-failed"),
        ({"exit_code": None, "signal": 9}, J.FAILED, "task-failed"),
        ({"exit_code": None}, J.QUEUED, "task-lost"),
        ({"exit_code": 143, "drained": True}, J.QUEUED, "task-left"),
        ({"exit_code": None, "signal": 15, "drained": True}, J.QUEUED, "task-left"),
    ],
    ids=lambda value: str(value),
)
def test_how_a_task_ended_is_how_the_job_goes_on(
    world: World, exited: dict[str, object], state: JobState, reason: str
) -> None:
    job = world.running_job()
    world.agent(job).task.update(state="exited", **exited)
    world.tick(1)
    row = world.job(job)
    attempt = world.roost.jobs.get(world.admin, job).attempts[0]
    assert attempt.reason == reason
    if state is J.QUEUED:
        assert (row.attempt, attempt.state) == (2, "interrupted") or row.state is J.QUEUED
        world.tick_until(lambda: world.job(job).state is J.RUNNING)
        assert reserved(world) > 0
    else:
        assert (row.state, row.reason) == (state, reason)
        world.tick_until(lambda: not world.machines())
        assert reserved(world) == 0


def test_a_task_that_ends_with_0_while_it_is_drained_is_run_again(world: World) -> None:
    """Many a program ends with 0 on SIGTERM; one that had completed completes again at once."""
    job = world.running_job()
    world.agent(job).exits(0, drained=True)
    world.tick(2)
    assert world.roost.jobs.get(world.admin, job).attempts[0].state == "interrupted"
    world.tick_until(lambda: world.job(job).attempt == 2)


def test_unless_its_progress_says_that_it_is_done(world: World) -> None:
    job = world.running_job()
    progress(world, job, {"event": "done", "step": 100})
    world.agent(job).exits(0, drained=True)
    world.tick(1)
    assert world.job(job).state is J.SUCCEEDED


def test_a_job_whose_machines_never_run_it_is_ended(world: World) -> None:
    """Each of them costs money."""
    world.deaf.add("fake")
    job = world.submit()
    world.tick_until(lambda: world.job(job).state is J.FAILED, seconds=100)
    row = world.job(job)
    assert (row.reason, row.attempt) == ("never-started", NEVER_STARTED_LIMIT)
    assert "the agent did not" in (row.message or "") or "booting-timeout" in (row.message or "")
    world.tick_until(lambda: not world.machines(), seconds=30)
    assert reserved(world) == 0


def test_a_failed_tasks_own_words_are_the_jobs_message(world: World) -> None:
    job = world.running_job()
    world.agent(job).exits(2, message="CUDA out of memory")
    world.tick(1)
    assert world.job(job).message == "CUDA out of memory"
    other = world.running_job("other")
    world.agent(other).exits(127)
    world.tick(1)
    assert "exit code 127" in (world.job(other).message or "")


def test_an_ended_tasks_last_output_is_waited_for(world: World) -> None:
    job = world.running_job()
    world.agent(job).exits(0, shipped=False)
    world.tick(5)
    assert world.job(job).state is J.RUNNING
    world.agent(job).task["shipped"] = True
    world.tick(1)
    assert world.job(job).state is J.SUCCEEDED


def test_but_not_of_a_machine_that_does_not_speak_any_more(world: World) -> None:
    job = world.running_job()
    world.agent(job).exits(3, shipped=False)
    world.tick(1)
    world.agent(job).silent = True
    world.tick_until(lambda: world.job(job).state is J.FAILED)
    heard = world.row(job).agent_seen_at
    assert heard is not None
    assert SHIPPING_LIMIT <= world.now - heard <= SHIPPING_LIMIT + timedelta(seconds=10)


def test_the_time_limit_is_over_all_attempts(world: World) -> None:
    job = world.running_job(max_runtime_s=600)
    world.tick(8, 50)
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick_until(lambda: world.job(job).attempt == 2 and world.job(job).state is J.RUNNING)
    second = world.now
    world.tick_until(lambda: world.job(job).state is J.FAILED)
    assert timedelta(seconds=150) < world.now - second < timedelta(seconds=210)
    row = world.job(job)
    assert row.reason == "time-limit"
    assert row.checkpoint_uri in (row.message or "")
    world.tick_until(lambda: not world.machines())
    assert reserved(world) == 0


def test_a_job_interrupted_at_its_limit_is_not_placed_again(world: World) -> None:
    job = world.running_job(max_runtime_s=100)
    world.clock.set(world.now + timedelta(seconds=101))
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick(2)
    assert (world.job(job).state, world.job(job).reason) == (J.FAILED, "time-limit")


@pytest.mark.parametrize("ticks", [0, 1, 3, 12])
def test_a_cancelled_job_leaves_no_machine_and_no_reservation(world: World, ticks: int) -> None:
    job = world.submit()
    world.tick(ticks, 5)
    view = world.roost.jobs.cancel(world.admin, job)
    assert (view.state, view.reason) == (J.CANCELLED, "person")
    assert world.roost.jobs.cancel(world.admin, job).state is J.CANCELLED
    assert all(attempt.state == "cancelled" for attempt in view.attempts)
    world.tick_until(lambda: not world.machines())
    world.tick(3)
    assert not any(state.live for state in world.states(job))
    assert reserved(world) == 0


def test_a_cancelled_jobs_machine_is_told_to_stop(world: World) -> None:
    job = world.running_job()
    agent = world.agent(job)
    world.roost.jobs.cancel(world.admin, job)
    world.tick(2)
    assert agent.answer["tasks"] == []
    assert agent.tasks == {}


def test_a_boot_that_fails_counts_as_an_attempt_that_never_ran(world: World) -> None:
    world.deaf.add("fake")
    job = world.submit(mode=SPOT)
    world.tick_until(lambda: world.job(job).attempt == 2, seconds=60)
    with world.store.read() as connection:
        first = jobs.attempts(connection, job)[0]
    assert (first.state, first.reason, first.running_at) == ("interrupted", "booting-timeout", None)
    assert world.now > START


def test_work_left_and_time_used_shape_nothing_until_it_runs(world: World) -> None:
    job = world.submit()
    view = world.roost.jobs.get(world.admin, job)
    assert (view.started_at, view.cost, view.attempts) == (None, None, ())
    world.tick_until(lambda: world.job(job).state is J.RUNNING)
    world.tick(5, 60)
    view = world.roost.jobs.get(world.admin, job)
    assert view.started_at is not None
    assert view.cost == pytest.approx(world.bill(), abs=Decimal("1e-9"))
