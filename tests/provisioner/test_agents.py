from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policies.world import InstanceState
from provisioner.errors import NotFoundError, UnauthenticatedError
from provisioner.ids import digest
from provisioner.store import jobs, journal
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import SPOT, Agent, World, agent_of, registration

I = InstanceState


def booting(world: World) -> Agent:
    """An agent that has not registered yet."""
    world.deaf.add("fake")
    world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    world.tick_until(lambda: world.state() is I.BOOTING)
    return agent_of(world.cloud.request_of(world.row().machine_id or "").user_data)


# ---- tokens


def test_the_bootstrap_token_is_exchanged_once_and_a_lost_reply_may_be_asked_for_again(
    either: World,
) -> None:
    world = either
    agent = booting(world)
    first = world.roost.agents.register(agent.bootstrap, registration(agent))
    again = world.roost.agents.register(agent.bootstrap, registration(agent))
    assert (
        first
        == again
        == {
            "protocol": 1,
            "instance_id": agent.instance_id,
            "heartbeat_s": 1.0,
        }
    )
    with pytest.raises(UnauthenticatedError, match="used already"):
        world.roost.agents.register(
            agent.bootstrap, registration(agent, token_sha256=digest("a thief's"))
        )
    with world.store.read() as connection:
        events = journal.events_of(connection, agent.instance_id)
    assert [e["kind"] for e in events].count("agent.registered") == 1
    assert world.roost.agents.heartbeat(agent.token, agent.report())["phase"] == "run"


@pytest.mark.parametrize("token", ["", "boot_0", "agent"])
def test_a_token_that_is_none_is_refused(world: World, token: str) -> None:
    agent = booting(world)
    with pytest.raises(UnauthenticatedError):
        world.roost.agents.register(token, registration(agent))
    with pytest.raises(UnauthenticatedError):
        world.roost.agents.heartbeat(agent.token, agent.report())


def test_a_token_is_good_for_its_own_instance_only(world: World) -> None:
    agent = booting(world)
    with pytest.raises(UnauthenticatedError):
        world.roost.agents.register(agent.bootstrap, registration(agent, instance_id="ins_other"))


def test_a_machine_that_was_given_up_is_not_let_in(world: World) -> None:
    agent = booting(world)
    world.roost.workstations.stop(world.admin, "desk")
    world.roost.workstations.delete(world.admin, "desk")
    world.tick_until(lambda: world.state() is I.TERMINATED)
    with pytest.raises(UnauthenticatedError):
        world.roost.agents.register(agent.bootstrap, registration(agent))


def test_an_agent_that_goes_on_after_its_end_is_told_to_stop(world: World) -> None:
    job = world.running_job()
    agent = world.agent(job)
    world.roost.jobs.cancel(world.admin, job)
    world.tick_until(lambda: world.state(job) is I.TERMINATED)
    answer = world.roost.agents.heartbeat(agent.token, agent.report())
    assert (answer["phase"], answer["tasks"]) == ("stop", [])


# ---- heartbeats


def test_a_first_heartbeat_makes_it_ready_and_a_later_boot_needs_one_of_its_own(
    world: World,
) -> None:
    desk = world.ready_desk()
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    world.deaf.add("fake")
    world.roost.workstations.start(world.admin, desk)
    world.tick(20, 5)
    assert world.state(desk) is I.BOOTING, "what was said before the stop does not count"
    world.deaf.clear()
    world.tick(1)
    assert world.state(desk) is I.READY


def test_unknown_fields_are_ignored_and_missing_ones_forgiven(world: World) -> None:
    agent = booting(world)
    world.roost.agents.register(agent.bootstrap, registration(agent, colour="blue"))
    body: dict[str, Any] = {"instance_id": agent.instance_id, "boot_id": "b", "mood": "good"}
    answer = world.roost.agents.heartbeat(agent.token, body)
    assert answer["phase"] == "run"
    world.tick(1)


def test_telemetry_is_shown(world: World) -> None:
    desk = world.ready_desk()
    world.agent(desk).cpu_percent = 42.0
    world.tick(1)
    instance = world.roost.instances.get(world.admin, world.row(desk).id)
    assert (instance.cpu_percent, instance.memory_bytes) == (42.0, 1 << 30)
    assert instance.agent_seen_at == world.now


def test_a_notice_without_a_time_is_for_now(world: World) -> None:
    desk = world.ready_desk()
    world.agent(desk).notices = [
        {"kind": "rebalance", "deadline": None},
        {"kind": "reclaim", "deadline": None},
    ]
    world.tick(1)
    assert world.row(desk).notice_deadline == world.now
    assert world.agent(desk).answer["phase"] == "drain"


def test_a_rebalance_is_no_reclaim(world: World) -> None:
    desk = world.ready_desk()
    world.agent(desk).notices = [{"kind": "rebalance", "deadline": None}]
    world.tick(2)
    assert world.row(desk).notice_deadline is None


def test_it_is_not_heard_about_the_tasks_of_other_machines(either: World) -> None:
    world = either
    mine, other = world.running_job("mine"), world.running_job("other")
    foreign = world.agent(other).task["id"]
    body = world.agent(mine).report()
    body["tasks"] = [{"id": foreign, "state": "exited", "exit_code": 0, "step": 999}]
    world.roost.agents.heartbeat(world.agent(mine).token, body)
    with world.store.read() as connection:
        attempt = jobs.get_attempt(connection, foreign)
    assert attempt is not None
    assert attempt.step is None
    world.roost.reconciler.tick()
    assert world.job(other).state == "running"
    assert world.job(other).step is None


# ---- logs and progress


def test_log_bytes_are_kept_once_in_whatever_order_they_come(either: World) -> None:
    world = either
    job = world.running_job()
    agent = world.agent(job)

    def ship(offset: int, text: str) -> int:
        body = {"task_id": agent.task["id"], "offset": offset, "text": text}
        answer: int = world.roost.agents.logs(agent.token, body)["next_offset"]
        return answer

    assert ship(0, "héllo\n") == 7
    assert ship(0, "héllo\n") == 7
    assert ship(20, "from the future") == 7
    assert ship(7, "") == 7
    assert ship(7, "a\x00b\n") == 11
    assert world.roost.jobs.logs(world.admin, job, None).text == "héllo\na\ufffdb\n"


def test_progress_records_are_kept_once(either: World) -> None:
    world = either
    job = world.running_job()
    agent = world.agent(job)

    def ship(offset: int, end: int | None, *records: dict[str, Any]) -> int:
        body = {"task_id": agent.task["id"], "offset": offset, "records": list(records)}
        if end is not None:
            body["next_offset"] = end
        answer: int = world.roost.agents.progress(agent.token, body)["next_offset"]
        return answer

    step = {"event": "step", "step": 1, "at": "2026-03-02T09:05:00+00:00"}
    assert ship(0, 50, step) == 50
    assert ship(0, 50, step) == 50
    assert ship(90, 120, {"event": "step", "step": 9}) == 50
    assert ship(50, None, {"event": "step", "step": 9}) == 50
    assert ship(50, 40, {"event": "step", "step": 9}) == 50
    assert ship(50, 80, {"event": "step", "step": True}, {"event": "step", "at": "nonsense"}) == 80
    assert ship(80, 99, {"event": "checkpoint", "step": 1}, {"strange": [1]}) == 99
    page = world.roost.jobs.progress(world.admin, job, 50, None)
    assert len(page.items) == 5
    attempt = world.roost.jobs.get(world.admin, job).attempts[0]
    assert (attempt.checkpoint_step, attempt.first_step_at is not None) == (1, True)


@pytest.mark.parametrize("call", ["logs", "progress"])
def test_another_machines_task_is_refused(world: World, call: str) -> None:
    mine, other = world.running_job("mine"), world.running_job("other")
    body = {"task_id": world.agent(other).task["id"], "offset": 0, "text": "x", "records": []}
    ship = getattr(world.roost.agents, call)
    with pytest.raises(NotFoundError):
        ship(world.agent(mine).token, body | {"next_offset": 1})
    with pytest.raises(NotFoundError):
        ship(world.agent(mine).token, body | {"task_id": "att_none", "next_offset": 1})
    with pytest.raises(UnauthenticatedError):
        ship("nobody", body)


def test_the_last_words_of_an_ended_job_are_still_taken(world: World) -> None:
    job = world.running_job()
    agent = world.agent(job)
    task = agent.task["id"]
    agent.exits(1)
    world.tick(2)
    body = {"task_id": task, "offset": 0, "text": "Traceback"}
    assert world.roost.agents.logs(agent.token, body) == {"next_offset": 9}


# ---- commands


def test_another_machines_command_is_refused(world: World) -> None:
    first, second = world.ready_desk("first"), world.ready_desk("second")
    asked = world.roost.workstations.exec(world.admin, first, ["ls"])
    with pytest.raises(NotFoundError):
        world.roost.agents.command_result(world.agent(second).token, asked.id, {"exit_code": 0})
    with pytest.raises(NotFoundError):
        world.roost.agents.command_result(world.agent(first).token, "cmd_none", {})
    assert world.roost.workstations.command(world.admin, asked.id).state == "queued"


def test_a_command_that_could_not_run_has_failed(world: World) -> None:
    desk = world.ready_desk()
    asked = world.roost.workstations.exec(world.admin, desk, ["nonsense"])
    result = {"exit_code": None, "stdout": "", "stderr": "", "error": "there is no nonsense"}
    world.roost.agents.command_result(world.agent(desk).token, asked.id, result)
    found = world.roost.workstations.command(world.admin, asked.id)
    assert (found.state, found.error) == ("failed", "there is no nonsense")


# ---- secrets


def test_no_secret_lies_in_the_database_in_clear(world: World) -> None:
    """Neither people's tokens nor machines', whatever happened to them."""
    world.team("vision")
    world.person("mina", "vision")
    _, secret = world.roost.people.create_token(world.admin, "mina", "laptop")
    job = world.running_job()
    agent = world.agent(job)
    secrets = [secret, world.first_secret, agent.bootstrap, agent.token]
    key = (world.roost.folder.path / "key").read_bytes()
    with world.store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database = Path(world.store.url.database or "")
    stored = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert digest(secret).encode() in stored
    assert all(one.encode() not in stored for one in secrets)
    assert key not in stored


def test_a_machine_that_is_at_risk_is_told_of_once(world: World) -> None:
    job = world.running_job(mode=SPOT)
    world.agent(job).notices.append({"kind": "rebalance", "deadline": None})
    world.tick(5)
    with world.store.read() as connection:
        events = journal.events_of(connection, world.row(job).id)
    assert [e["kind"] for e in events].count("instance.at-risk") == 1
    assert world.state(job) is InstanceState.READY, "it is no reason to leave"
