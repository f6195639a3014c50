"""A workstation from its creation to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from policies.world import Desire, InstanceState
from provisioner.errors import (
    BudgetExceededError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
)
from provisioner.people import Role
from provisioner.providers.contract import Volume
from provisioner.store import ledger, workstations
from provisioner.workstations.phase import Phase
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ABLE, ON_DEMAND, SPOT, World, offer

I = InstanceState
IDLE = """
policy: idle
version: "1"
idle:
  when: {no_input: true, cpu_below: 10%}
  for: 30m
  warn: 5m
"""


def reserved(world: World) -> Decimal:
    with world.store.read() as connection:
        held = ledger.open_reservations(connection, world.admin.team_id or "")
    return sum((r.amount for r in held), Decimal())


def phase(world: World, ref: str) -> tuple[Phase, str]:
    view = world.roost.workstations.get(world.admin, ref)
    return view.phase, view.reason


def test_from_a_wish_to_a_machine_and_back(either: World) -> None:
    world = either
    service = world.roost.workstations
    made = service.create(world.admin, NewWorkstation("desk", volume_gib=20))
    assert (made.phase, made.instance) == (Phase.WAITING, None)
    assert reserved(world) == Decimal("2.40"), "a working day at the on-demand price"
    world.tick(1)
    assert phase(world, "desk")[0] is Phase.STARTING
    world.tick_until(lambda: world.state(made.id) is I.READY)
    assert phase(world, "desk") == (Phase.READY, "agent-ready")
    (volume,) = world.cloud.list().volumes
    assert (volume.id, volume.gib) == (made.volume_id, 20)

    service.stop(world.admin, "desk")
    assert reserved(world) == 0
    world.tick(1)
    assert phase(world, "desk")[0] is Phase.MOVING
    world.tick_until(lambda: world.state(made.id) is I.STOPPED)
    assert phase(world, "desk") == (Phase.OFF, "person")
    world.tick(5, 60)
    assert world.state(made.id) is I.STOPPED

    service.start(world.admin, "desk")
    assert reserved(world) == Decimal("2.40")
    world.tick_until(lambda: world.state(made.id) is I.READY)
    assert len(world.rows(made.id)) == 1

    gone = service.delete(world.admin, "desk")
    assert gone.phase is Phase.GONE
    world.tick_until(lambda: not world.machines() and not world.cloud.list().volumes)
    world.tick(3)
    assert service.get(world.admin, made.id).deleted_at is not None
    assert service.list(world.admin, 10, None).items == ()
    assert reserved(world) == 0
    with pytest.raises(NotFoundError):
        service.get(world.admin, "desk")


def test_starting_twice_sets_aside_once(world: World) -> None:
    world.ready_desk()
    world.roost.workstations.start(world.admin, "desk")
    assert reserved(world) == Decimal("2.40")


def test_an_idle_one_is_warned_and_stopped_and_stays_off(either: World) -> None:
    world = either
    world.roost.policies.apply(world.admin, IDLE, "idle.yaml")
    desk = world.ready_desk()
    world.agent(desk).cpu_percent = 3.0
    world.tick(14, 110)
    with world.store.read() as connection:
        row = workstations.get(connection, desk)
    assert row is not None
    assert row.warned_at is not None
    assert world.state(desk) is I.READY
    world.tick_until(lambda: world.state(desk) is I.STOPPED, seconds=60)
    view = world.roost.workstations.get(world.admin, desk)
    assert (view.desire, view.desire_reason, view.phase) == (Desire.OFF, "idle", Phase.OFF)
    assert reserved(world) == 0
    world.tick(10, 600)
    assert world.state(desk) is I.STOPPED
    world.roost.workstations.start(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.READY)
    world.tick(5, 60)
    assert world.state(desk) is I.READY


@pytest.mark.parametrize("busy", ["input", "load", "command"])
def test_what_is_used_is_not_idle(world: World, busy: str) -> None:
    world.roost.policies.apply(world.admin, IDLE, "idle.yaml")
    desk = world.ready_desk()
    agent = world.agent(desk)
    agent.cpu_percent = 90.0 if busy == "load" else 3.0
    agent.input_age_s = 60.0 if busy == "input" else None
    for _ in range(10):
        world.tick(3, 150)
        if busy == "command":
            world.roost.workstations.exec(world.admin, desk, ["ls"])
    assert world.state(desk) is I.READY


def test_input_takes_the_warning_back(world: World) -> None:
    world.roost.policies.apply(world.admin, IDLE, "idle.yaml")
    desk = world.ready_desk()
    world.agent(desk).cpu_percent = 3.0
    world.tick(14, 110)
    world.agent(desk).input_age_s = 1.0
    world.tick(1)
    world.agent(desk).input_age_s = None
    world.tick(10, 110)
    assert world.state(desk) is I.READY


def test_a_warning_of_another_stop_does_not_put_the_first_one_off(world: World) -> None:
    """The ttl warns from 09:35 on for 10:05; idleness, noticed later, ends it before that."""
    ttl = 'policy: ttl\nversion: "1"\nallow: {ttl: 65m}\n'
    world.roost.policies.apply(world.admin, ttl, "ttl.yaml")
    world.roost.policies.apply(world.admin, IDLE, "idle.yaml")
    desk = world.ready_desk()
    began, agent = world.now, world.agent(desk)
    agent.cpu_percent, agent.input_age_s = 3.0, 1.0
    world.tick(15, 100)
    agent.input_age_s = None
    world.tick_until(lambda: world.state(desk) is I.STOPPED, seconds=60)
    assert world.roost.workstations.get(world.admin, desk).desire_reason == "idle"
    assert timedelta(minutes=54) < world.now - began < timedelta(minutes=60)


def test_a_hold_keeps_it_running_until_it_ends(world: World) -> None:
    world.roost.policies.apply(world.admin, IDLE, "idle.yaml")
    desk = world.ready_desk()
    world.agent(desk).cpu_percent = 3.0
    until = world.now + timedelta(hours=2)
    view = world.roost.workstations.hold(world.admin, desk, "keep-running", until)
    assert (view.hold_kind, view.hold_until) == ("keep-running", until)
    world.tick(12, 580)
    assert world.state(desk) is I.READY
    world.tick_until(lambda: world.state(desk) is I.STOPPED, seconds=60)
    assert world.now > until


def test_a_hold_keeps_it_stopped_until_it_is_released_or_started(world: World) -> None:
    desk = world.ready_desk()
    world.roost.workstations.hold(world.admin, desk, "keep-stopped", None)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    assert world.roost.workstations.release(world.admin, desk).hold_kind is None
    world.roost.workstations.hold(world.admin, desk, "keep-stopped", None)
    assert world.roost.workstations.start(world.admin, desk).hold_kind is None
    world.tick_until(lambda: world.state(desk) is I.READY)


def test_holds_that_make_no_sense_are_refused(world: World) -> None:
    desk = world.ready_desk()
    with pytest.raises(InvalidError, match="keep-running, keep-stopped"):
        world.roost.workstations.hold(world.admin, desk, "for-ever", None)
    with pytest.raises(InvalidError, match="in the past"):
        world.roost.workstations.hold(world.admin, desk, "keep-running", world.now)


def test_spot_cannot_be_stopped_so_it_is_terminated_and_the_home_kept(world: World) -> None:
    desk = world.ready_desk(mode=SPOT)
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.TERMINATED)
    assert world.calls("stop") == 0
    assert [v.attached_to for v in world.cloud.list().volumes] == [None]
    assert phase(world, desk)[0] is Phase.OFF
    world.roost.workstations.start(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.READY)
    first, second = world.rows(desk)
    assert first.volume_id == second.volume_id
    assert first.launch_id != second.launch_id


def test_a_reclaimed_desk_gets_another_machine_with_its_home(world: World) -> None:
    desk = world.ready_desk(mode=SPOT)
    deadline = world.cloud.reclaim(world.row(desk).machine_id or "", notice_s=30)
    world.agent(desk).notices = [{"kind": "reclaim", "deadline": deadline.isoformat()}]
    world.tick(1)
    view = world.roost.workstations.get(world.admin, desk)
    assert view.instance is not None
    assert view.instance.conditions == ("interrupting",)
    world.tick_until(lambda: len(world.rows(desk)) == 2 and world.state(desk) is I.READY)
    assert world.now > deadline
    assert len({row.volume_id for row in world.rows(desk)}) == 1


def test_it_waits_for_spot_only_since_it_lost_its_machine(
    make_world: Callable[..., World],
) -> None:
    """`no_spot_for` counts from the loss, not from when the desk was created."""
    text = (
        "policy: spot\nversion: '1'\ncapacity:\n  prefer: spot\n  fall_back_to: on-demand\n"
        "  fall_back_when: {no_spot_for: 20m}\n"
    )
    world = make_world(clouds={"fake": [offer("a", SPOT, "0.1"), offer("a", ON_DEMAND, "0.3")]})
    world.roost.policies.apply(world.admin, text, "spot.yaml")
    desk = world.ready_desk()
    assert world.row(desk).offer.mode is SPOT
    world.tick(10, 300)
    world.cloud.scarce.add("fake/r/a/small/spot")
    world.cloud.reclaim(world.row(desk).machine_id or "")
    world.tick(20, 30)
    lost_at = world.rows(desk)[0].ended_at
    assert lost_at is not None
    assert {row.offer.mode for row in world.rows(desk)} == {SPOT}
    world.tick_until(lambda: world.row(desk).offer.mode is ON_DEMAND, seconds=30)
    assert world.now - lost_at >= timedelta(minutes=20)


# ---- names


def test_a_name_is_free_again_once_its_desk_is_gone(either: World) -> None:
    world = either
    service = world.roost.workstations
    first = world.ready_desk("desk")
    with pytest.raises(ConflictError, match="already"):
        service.create(world.admin, NewWorkstation("desk"))
    service.delete(world.admin, "desk")
    with pytest.raises(ConflictError):
        service.start(world.admin, first)
    with pytest.raises(ConflictError):
        service.stop(world.admin, first)
    world.tick_until(lambda: service.get(world.admin, first).deleted_at is not None)
    second = service.create(world.admin, NewWorkstation("desk"))
    assert service.get(world.admin, "desk").id == second.id != first
    assert service.get(world.admin, first).phase is Phase.GONE


def test_one_that_never_had_a_machine_is_deleted_at_once(world: World) -> None:
    world.cloud.scarce.add("fake")
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    world.tick(3)
    world.roost.workstations.delete(world.admin, desk)
    world.tick(2)
    assert world.roost.workstations.get(world.admin, desk).deleted_at is not None
    assert world.calls("delete_volume") == 0


def test_a_home_that_comes_to_light_after_its_desk_was_deleted_is_deleted(world: World) -> None:
    desk = world.ready_desk()
    volume = world.row(desk).volume_id or ""
    world.roost.workstations.delete(world.admin, desk)
    world.tick_until(lambda: world.roost.workstations.get(world.admin, desk).deleted_at)
    world.cloud._disks._volumes[volume] = Volume(volume, 10, world.now)
    world.tick(3)
    assert world.cloud.list().volumes == ()


def test_two_teams_may_use_the_same_name(world: World) -> None:
    for team in ("vision", "speech"):
        world.team(team)
        actor = world.person(f"{team}-lead", team, Role.LEAD)
        made = world.roost.workstations.create(actor, NewWorkstation("desk"))
        assert world.roost.workstations.get(actor, "desk").id == made.id


# ---- who may do what


def test_roles(either: World) -> None:
    world = either
    world.team("vision")
    world.team("speech")
    mina, max_ = world.person("mina", "vision"), world.person("max", "vision")
    lena = world.person("lena", "vision", Role.LEAD)
    sam = world.person("sam", "speech", Role.LEAD)
    service = world.roost.workstations
    desk = service.create(mina, NewWorkstation("desk")).id
    for actor in (mina, max_, lena, world.admin):
        assert service.get(actor, desk).owner_name == "mina"
        assert len(service.list(actor, 5, None).items) == 1
    assert service.list(sam, 5, None).items == ()
    for actor in (max_, sam):
        for change in (service.start, service.stop, service.delete, service.release):
            with pytest.raises(NotFoundError):
                change(actor, desk)
        with pytest.raises(NotFoundError):
            service.hold(actor, desk, "keep-running", None)
        with pytest.raises(NotFoundError):
            service.exec(actor, desk, ["ls"])
    service.stop(lena, desk)
    service.start(world.admin, desk)
    with pytest.raises(NotFoundError):
        service.create(sam, NewWorkstation("theirs", team="vision"))


# ---- commands


def test_a_command_is_run_once_and_answered_once(either: World) -> None:
    world = either
    desk = world.ready_desk()
    asked = world.roost.workstations.exec(world.admin, desk, ["nvidia-smi"], 30)
    assert asked.state == "queued"
    world.tick(1)
    agent = world.agent(desk)
    assert agent.answer["commands"] == [{"id": asked.id, "argv": ["nvidia-smi"], "timeout_s": 30.0}]
    result = {"exit_code": 0, "stdout": "ok", "stderr": "", "truncated": False, "timed_out": False}
    world.roost.agents.command_result(agent.token, asked.id, result | {"error": None})
    world.roost.agents.command_result(agent.token, asked.id, result | {"stdout": "again"})
    world.tick(1)
    assert agent.answer["commands"] == []
    done = world.roost.workstations.command(world.admin, asked.id)
    assert (done.state, done.exit_code, done.stdout) == ("done", 0, "ok")


def test_a_command_needs_a_ready_machine(world: World) -> None:
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk")).id
    with pytest.raises(ConflictError, match="is waiting"):
        world.roost.workstations.exec(world.admin, desk, ["ls"])
    world.tick_until(lambda: world.state(desk) is I.READY)
    world.roost.workstations.exec(world.admin, desk, ["ls"])
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    with pytest.raises(ConflictError, match="is off"):
        world.roost.workstations.exec(world.admin, desk, ["ls"])


@pytest.mark.parametrize("argv", [[], [""], ["a", "b\x00"]])
def test_no_command_is_no_command(world: World, argv: list[str]) -> None:
    desk = world.ready_desk()
    with pytest.raises(InvalidError, match="no command"):
        world.roost.workstations.exec(world.admin, desk, argv)
    with pytest.raises(InvalidError, match="timeout"):
        world.roost.workstations.exec(world.admin, desk, ["ls"], 0)


@pytest.mark.parametrize("end", ["stop", "delete", "terminated", "vanished"])
def test_a_command_whose_machine_is_off_is_answered(world: World, end: str) -> None:
    desk = world.ready_desk()
    asked = world.roost.workstations.exec(world.admin, desk, ["sleep", "9"])
    machine = world.row(desk).machine_id or ""
    if end == "terminated":
        world.cloud.terminate(machine)
    elif end == "vanished":
        world.cloud.forget(machine)
    else:
        getattr(world.roost.workstations, end)(world.admin, desk)
    world.tick(14, 90)
    found = world.roost.workstations.command(world.admin, asked.id)
    assert (found.state, found.exit_code) == ("failed", None)
    assert "stopped before it answered" in (found.error or "")
    assert found.ended_at is not None


# ---- admission


def test_a_budget_that_has_no_room_refuses_start_and_create(either: World) -> None:
    world = either
    world.team("vision", "3")
    lena = world.person("lena", "vision", Role.LEAD)
    service = world.roost.workstations
    service.create(lena, NewWorkstation("one"))
    with pytest.raises(BudgetExceededError, match=r"team vision needs 2\.40 USD but has 0\.60"):
        service.create(lena, NewWorkstation("two"))
    assert [view.name for view in service.list(lena, 5, None).items] == ["one"]
    service.stop(lena, "one")
    service.create(lena, NewWorkstation("two"))
    with pytest.raises(BudgetExceededError):
        service.start(lena, "one")
    assert service.get(lena, "one").desire is Desire.OFF


@pytest.mark.parametrize("price", ["0.30", "0"])
def test_a_budget_in_another_currency_admits_nothing_that_costs(
    make_world: Callable[..., World], price: str
) -> None:
    able = replace(ABLE, own_prices=True)
    world = make_world(clouds={"fake": [offer("a", ON_DEMAND, price)]}, able=able)
    world.team("vision", "100", "EUR")
    lena = world.person("lena", "vision", Role.LEAD)
    if price == "0":
        world.roost.workstations.create(lena, NewWorkstation("desk"))
    else:
        with pytest.raises(BudgetExceededError, match="in EUR, the price in USD"):
            world.roost.workstations.create(lena, NewWorkstation("desk"))
    world.tick(2)


def test_what_no_policy_allows_is_refused_with_the_line(world: World) -> None:
    text = "policy: small\nversion: '1'\nallow:\n  price_per_hour: up to 0.05 USD\n"
    world.roost.policies.apply(world.admin, text, "small.yaml")
    with pytest.raises(RefusedError, match=r"small\.yaml:4"):
        world.roost.workstations.create(world.admin, NewWorkstation("desk"))


def test_a_request_sent_twice_makes_one_desk_and_runs_one_command(either: World) -> None:
    world, service = either, either.roost.workstations
    made = service.create(world.admin, NewWorkstation("desk"), "mine")
    assert service.create(world.admin, NewWorkstation("desk"), "mine").id == made.id
    assert reserved(world) == Decimal("2.40"), "set aside once"
    world.tick_until(lambda: world.state(made.id) is I.READY)
    asked = service.exec(world.admin, "desk", ["date"], once="mine")
    assert service.exec(world.admin, "desk", ["date"], once="mine").id == asked.id
    assert service.exec(world.admin, "desk", ["date"]).id != asked.id
    world.call_in()
    assert len(world.agent(made.id).answer["commands"]) == 2
