from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from policies.plan import ActionKind
from policies.world import InstanceState
from provisioner.errors import ForbiddenError, InvalidError, NotFoundError
from provisioner.people import Role
from provisioner.store import policies
from provisioner.store.housekeeping import KEPT, prune
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import World

OPEN = "policy: hours\nversion: '1'\nhours:\n  open: ['mon-sun 06:00-22:00']\n"
CHEAP = "policy: cheap\nversion: '1'\nallow:\n  price_per_hour: up to 0.35 USD\n"
I = InstanceState


def test_a_text_is_checked_without_being_applied(world: World) -> None:
    assert world.roost.policies.check(CHEAP, "cheap.yaml") == ()
    (problem, *_) = world.roost.policies.check(CHEAP + "alow: {}\n", "cheap.yaml")
    assert (problem.file, problem.line) == ("cheap.yaml", 5)
    assert world.roost.policies.list(world.admin, 9, None).items == ()


def test_each_change_is_a_version_and_one_is_in_force(either: World) -> None:
    world = either
    book = world.roost.policies
    first = book.apply(world.admin, CHEAP, "cheap.yaml")
    assert (first.version, first.active, first.applied_by) == (1, True, "admin")
    assert book.apply(world.admin, CHEAP, "cheap.yaml") == first
    second = book.apply(world.admin, CHEAP.replace("0.35", "0.50"), "cheap.yaml")
    assert second.version == 2
    assert [p.version for p in book.list(world.admin, 9, None).items] == [2]
    assert not book.get(world.admin, "cheap", 1).active
    assert book.get(world.admin, "cheap").text == second.text
    for name, version in (("cheap", 3), ("dear", None)):
        with pytest.raises(NotFoundError):
            book.get(world.admin, name, version)


def test_texts_applied_at_once_are_versions_in_a_row(either: World) -> None:
    world = either
    together = Barrier(5)

    def apply(n: int) -> int:
        together.wait()
        text = CHEAP.replace("0.35", f"0.4{n}")
        return world.roost.policies.apply(world.admin, text, "cheap.yaml").version

    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(apply, range(5))) == [1, 2, 3, 4, 5]
    with world.store.read() as connection:
        assert len(policies.active(connection)) == 1


def test_what_is_wrong_or_contradicts_what_is_in_force_is_refused(world: World) -> None:
    book = world.roost.policies
    with pytest.raises(InvalidError, match=r"cheap\.yaml:5"):
        book.apply(world.admin, CHEAP + "alow: {}\n", "cheap.yaml")
    book.apply(world.admin, CHEAP + "  purchase: [spot]\n", "cheap.yaml")
    other = "policy: dear\nversion: '1'\nallow:\n  purchase: [on-demand]\n"
    with pytest.raises(InvalidError, match="purchase"):
        book.apply(world.admin, other, "dear.yaml")


def test_a_lead_speaks_for_their_own_team(world: World) -> None:
    world.team("vision")
    world.team("speech")
    lena = world.person("lena", "vision", Role.LEAD)
    mina = world.person("mina", "vision")
    book = world.roost.policies
    mine = CHEAP + "applies_to: {team: vision}\n"
    for text in (
        CHEAP,
        CHEAP + "applies_to: {team: speech}\n",
        CHEAP + "applies_to: {team: [vision, speech]}\n",
        CHEAP + "applies_to: {user: mina}\n",
    ):
        with pytest.raises(InvalidError, match="applies_to"):
            book.apply(lena, text, "cheap.yaml")
    assert book.apply(lena, mine, "cheap.yaml").active
    with pytest.raises(ForbiddenError):
        book.apply(mina, mine, "cheap.yaml")
    with pytest.raises(ForbiddenError):
        book.plan(mina, mine, "cheap.yaml")


def test_a_lead_cannot_replace_somebody_elses_policy_of_the_same_name(world: World) -> None:
    world.team("vision")
    lena = world.person("lena", "vision", Role.LEAD)
    book = world.roost.policies
    book.apply(world.admin, CHEAP, "cheap.yaml")
    loose = "policy: cheap\nversion: '1'\napplies_to: {team: vision}\n"
    with pytest.raises(ForbiddenError, match="not about your team alone"):
        book.apply(lena, loose, "mine.yaml")
    assert book.get(world.admin, "cheap").version == 1
    own = loose.replace("cheap", "ours")
    book.apply(lena, own, "mine.yaml")
    assert book.apply(lena, own + "allow: {ttl: 8h}\n", "mine.yaml").version == 2


def test_a_plan_is_made_and_nothing_done(world: World) -> None:
    world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    launch = world.roost.policies.plan(world.admin, None, None)
    assert [d.action for d in launch.decisions] == [ActionKind.LAUNCH]
    none = CHEAP.replace("0.35", "0.05")
    nothing = world.roost.policies.plan(world.admin, none, "cheap.yaml")
    assert [d.action for d in nothing.decisions] == [ActionKind.NOTHING]
    assert world.rows() == []
    assert world.roost.policies.list(world.admin, 9, None).items == ()


def test_decisions_are_explained_with_the_policys_line(either: World) -> None:
    world = either
    world.roost.policies.apply(world.admin, CHEAP.replace("0.35", "0.31"), "cheap.yaml")
    world.ready_desk("desk")
    found = world.roost.policies.explain(world.admin, "desk")
    assert [e.action for e in found][-1] == "launch"
    assert found[0].at >= found[-1].at
    assert "its person wants it on" in found[-1].text
    assert "cheap.yaml:4" in str(found[-1].body["decisions"]), "why not the dearer offer"
    with pytest.raises(NotFoundError):
        world.roost.policies.explain(world.admin, "nothing")


def test_explanations_are_for_those_who_may_see_the_target(world: World) -> None:
    world.team("vision")
    world.team("speech")
    lena = world.person("lena", "vision", Role.LEAD)
    sam = world.person("sam", "speech", Role.LEAD)
    desk = world.ready_desk("desk", lena)
    instance = world.row(desk).id
    assert world.roost.policies.explain(lena, desk)
    assert world.roost.policies.explain(lena, instance)
    for ref in (desk, "desk", instance, "vision"):
        with pytest.raises(NotFoundError):
            world.roost.policies.explain(sam, ref)


def test_each_stored_snapshot_is_decided_again_identically(either: World) -> None:
    world = either
    world.roost.policies.apply(world.admin, CHEAP, "cheap.yaml")
    world.roost.policies.apply(world.admin, OPEN, "hours.yaml")
    desk = world.ready_desk("desk")
    job = world.running_job("train")
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.tick(5, 30)
    world.roost.workstations.stop(world.admin, desk)
    world.tick(5, 30)
    snapshots = {
        e.snapshot_id for ref in (desk, job) for e in world.roost.policies.explain(world.admin, ref)
    }
    assert len(snapshots) > 4
    for id in snapshots:
        replay = world.roost.policies.replay(world.admin, id)
        assert replay.identical, replay.text
    with pytest.raises(NotFoundError):
        world.roost.policies.replay(world.admin, "snap_none")


def test_housekeeping_keeps_each_targets_last_decision_and_its_snapshot(either: World) -> None:
    world = either
    desk = world.ready_desk("desk")
    before = world.roost.policies.explain(world.admin, desk)
    assert len(before) > 1
    prune(world.store, world.now)
    assert world.roost.policies.explain(world.admin, desk) == before
    world.clock.set(world.now + 2 * KEPT)
    prune(world.store, world.now)
    (last,) = world.roost.policies.explain(world.admin, desk)
    assert last == before[0]
    assert world.roost.policies.replay(world.admin, last.snapshot_id).identical


def test_a_decision_is_stored_when_it_is_news(world: World) -> None:
    desk = world.ready_desk("desk")
    before = len(world.roost.policies.explain(world.admin, desk))
    world.tick(20, 30)
    assert len(world.roost.policies.explain(world.admin, desk)) == before
