from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from policies.world import InstanceState, JobState
from provisioner.errors import (
    BudgetExceededError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
)
from provisioner.jobs.service import LOG_PAGE, NewJob
from provisioner.people import Role
from tests.provisioner.world import ON_DEMAND, SPOT, World

JOB = NewJob("train", argv=["python", "train.py"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"argv": None}, "either a command or a recipe"),
        ({"recipe": "image-classification"}, "either a command or a recipe"),
        ({"argv": []}, "command is empty"),
        ({"argv": [""]}, "command is empty"),
        ({"argv": ["a\x00b"]}, "command is empty"),
        ({"argv": None, "recipe": "nonsense"}, "no recipe"),
        ({"config": {"epochs": 1}}, "no config"),
        ({"nodes": 2}, "2 nodes"),
        ({"checkpoint_uri": "/tmp/here"}, "no URI"),
        ({"env": {"A=B": "c"}}, "environment variable"),
        ({"provider": "nobody"}, "no provider"),
        ({"region": "nowhere"}, "no region"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    world: World, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidError, match=words):
        world.roost.jobs.submit(world.admin, replace(JOB, **changes))
    assert world.roost.jobs.list(world.admin, 10, None).items == ()


def test_a_deadline_in_the_past_is_refused(world: World) -> None:
    with pytest.raises(InvalidError, match="in the past"):
        world.roost.jobs.submit(world.admin, replace(JOB, deadline=world.now))


@pytest.mark.parametrize("changes", [{"cpus": 64}, {"max_price_per_hour": Decimal("0.01")}])
def test_what_nobody_sells_is_refused_with_reasons(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="Nothing that can be bought fits"):
        world.roost.jobs.submit(world.admin, replace(JOB, **changes))


def test_a_recipe_becomes_a_command(world: World) -> None:
    new = NewJob("learn", recipe="image-classification", config={"epochs": 2})
    view = world.roost.jobs.submit(world.admin, new)
    assert view.argv[:4] == ["python", "-m", "trainer_agent.recipes", "image-classification"]
    assert view.argv[-1] == '{"epochs": 2}'


def test_its_share_of_the_budget_is_set_aside_or_it_is_refused(either: World) -> None:
    world = either
    world.team("vision", "0.50")
    lead = world.person("lena", "vision", Role.LEAD)
    world.submit("one", lead, mode=ON_DEMAND, max_runtime_s=3600)
    with pytest.raises(BudgetExceededError, match=r"team vision needs 0\.30 USD but has 0\.20"):
        world.submit("two", lead, mode=ON_DEMAND, max_runtime_s=3600)
    world.submit("short", lead, mode=ON_DEMAND, max_runtime_s=2400)
    world.roost.jobs.cancel(lead, "one")
    world.submit("two", lead, mode=ON_DEMAND, max_runtime_s=3600)


def test_teams_see_their_own(either: World) -> None:
    world = either
    world.team("vision")
    world.team("speech")
    mina = world.person("mina", "vision")
    max_ = world.person("max", "vision")
    lena = world.person("lena", "vision", Role.LEAD)
    sam = world.person("sam", "speech", Role.LEAD)
    job = world.submit("train", mina)
    for actor in (mina, max_, lena, world.admin):
        assert world.roost.jobs.get(actor, "train").id == job
        assert [v.id for v in world.roost.jobs.list(actor, 5, None).items] == [job]
    assert world.roost.jobs.list(sam, 5, None).items == ()
    for call in (world.roost.jobs.get, world.roost.jobs.cancel):
        with pytest.raises(NotFoundError):
            call(sam, job)
    with pytest.raises(NotFoundError):
        world.roost.jobs.logs(sam, job, None)
    with pytest.raises(NotFoundError, match="not yours"):
        world.roost.jobs.cancel(max_, job)
    with pytest.raises(NotFoundError):
        world.roost.jobs.submit(sam, replace(JOB, team="vision"))
    assert world.roost.jobs.cancel(lena, job).state is JobState.CANCELLED


def test_an_ended_job_is_not_cancelled(world: World) -> None:
    job = world.running_job()
    world.agent(job).exits(0)
    world.tick(1)
    with pytest.raises(ConflictError, match="ended already: succeeded"):
        world.roost.jobs.cancel(world.admin, job)


def test_jobs_are_listed_by_state_and_paged(world: World) -> None:
    ids = [world.submit(f"job-{n}") for n in range(5)]
    world.roost.jobs.cancel(world.admin, ids[2])
    found: list[str] = []
    cursor = None
    while True:
        page = world.roost.jobs.list(world.admin, 2, cursor, JobState.QUEUED)
        found += [view.id for view in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert sorted(found) == sorted(id for id in ids if id != ids[2])


def test_of_one_name_the_newest_is_meant(world: World) -> None:
    world.submit("train")
    world.tick(1)
    newest = world.submit("train")
    assert world.roost.jobs.get(world.admin, "train").id == newest


def test_spot_is_taken_where_asked_and_its_budget_is_the_spot_price(world: World) -> None:
    job = world.running_job(mode=SPOT)
    assert world.row(job).offer.id == "fake/r/a/small/spot"


def test_the_log_of_all_attempts_is_read_piece_by_piece(either: World) -> None:
    world = either
    job = world.running_job()
    agent = world.agent(job)
    offset = 0
    lines = [f"line {n} é\n" for n in range(LOG_PAGE + 5)]
    for line in lines:
        body = {"task_id": agent.task["id"], "offset": offset, "text": line}
        offset = world.roost.agents.logs(agent.token, body)["next_offset"]
    first = world.roost.jobs.logs(world.admin, job, None)
    assert first.text == "".join(lines[:LOG_PAGE])
    rest = world.roost.jobs.logs(world.admin, job, first.next)
    assert (rest.text, rest.ended) == ("".join(lines[LOG_PAGE:]), False)
    agent.exits(0)
    world.tick(1)
    end = world.roost.jobs.logs(world.admin, job, rest.next)
    assert (end.text, end.ended) == ("", True)
    with pytest.raises(InvalidError):
        world.roost.jobs.logs(world.admin, job, "nonsense")


def test_progress_is_paged_with_its_attempt(world: World) -> None:
    job = world.running_job()
    agent = world.agent(job)
    records = [{"event": "step", "step": n, "loss": 1 / n} for n in range(1, 6)]
    body = {"task_id": agent.task["id"], "offset": 0, "next_offset": 500, "records": records}
    world.roost.agents.progress(agent.token, body)
    first = world.roost.jobs.progress(world.admin, job, 3, None)
    last = world.roost.jobs.progress(world.admin, job, 3, first.next)
    assert [r["step"] for r in (*first.items, *last.items)] == [1, 2, 3, 4, 5]
    assert {r["attempt"] for r in first.items} == {1}
    assert last.next is None
    assert world.roost.jobs.get(world.admin, job).step == 5


def test_what_the_run_found_is_its_result(world: World) -> None:
    job = world.running_job()
    agent = world.agent(job)
    done = {"event": "done", "step": 100, "total_steps": 100, "accuracy": 0.97}
    body = {"task_id": agent.task["id"], "offset": 0, "next_offset": 10, "records": [done]}
    world.roost.agents.progress(agent.token, body)
    agent.exits(0)
    world.tick(1)
    view = world.roost.jobs.get(world.admin, job)
    assert view.result is not None
    assert (view.result["accuracy"], view.total_steps) == (0.97, 100)


def test_a_deadline_and_labels_are_kept(make_world: Callable[..., World]) -> None:
    world = make_world()
    deadline = world.now + timedelta(hours=3)
    job = world.submit(deadline=deadline, labels={"project": "birds"}, env={"A": "b"}, threads=2)
    view = world.roost.jobs.get(world.admin, job)
    assert (view.deadline, dict(view.labels)) == (deadline, {"project": "birds"})
    world.tick_until(lambda: world.state(job) is InstanceState.READY)
    world.tick(1)
    task = world.agent(job).answer["tasks"][0]
    assert (task["env"], task["threads"], task["nproc"]) == ({"A": "b"}, 2, 1)
    assert task["checkpoint_uri"].endswith(f"/jobs/{job}/checkpoints")
