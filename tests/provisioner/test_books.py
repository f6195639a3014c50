"""The books agree with the bill, to the last digit, whatever happened."""

from __future__ import annotations

import csv
import io
import itertools
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from threading import Barrier

import pytest

from cost.ledger import total
from cost.periods import Period
from policies.world import InstanceState, JobState
from provisioner import ledger
from provisioner.costs import GROUPS, CostView
from provisioner.errors import (
    BudgetExceededError,
    InvalidError,
    NotFoundError,
    RoostError,
    ThrottledError,
)
from provisioner.jobs.service import NewJob
from provisioner.people import Actor, Role
from provisioner.store import ledger as ledger_rows
from provisioner.workstations.service import NewWorkstation
from tests.provisioner.world import ON_DEMAND, SPOT, START, World, offer

I = InstanceState
EXACT = Decimal("1e-9")
"""Amounts are cut to 12 places for each span; see `cost.ledger`."""


def machines_cost(world: World, *, hourly: bool = False) -> Decimal:
    """What the books say all machines cost, homes apart."""
    span = Period(START - timedelta(days=1), world.now + timedelta(seconds=1))
    with world.store.read() as connection:
        charges = ledger.charges(connection, span, world.now, hourly=hourly)
    return total(c for c in charges if c.resource.size_gib is None)


def homes_cost(world: World) -> Decimal:
    span = Period(START - timedelta(days=1), world.now + timedelta(seconds=1))
    with world.store.read() as connection:
        charges = ledger.charges(connection, span, world.now)
    return total(c for c in charges if c.resource.size_gib is not None)


@pytest.mark.parametrize("seed", range(3))
def test_after_any_history_charges_and_bill_are_the_same(
    make_world: Callable[..., World], seed: int
) -> None:
    world = make_world()
    dice = random.Random(seed)
    desks = [world.roost.workstations.create(world.admin, NewWorkstation(f"d{n}")) for n in (1, 2)]
    done: list[str] = []
    for _ in range(40):
        act = dice.choice(("submit", "cancel", "exit", "stop", "start", "reclaim", "price", "pass"))
        done.append(act)
        jobs = [v for v in world.roost.jobs.list(world.admin, 20, None).items if not v.state.ended]
        desk = dice.choice(desks)
        if act == "submit" and len(jobs) < 4:
            world.submit(f"j{len(done)}", mode=dice.choice((SPOT, ON_DEMAND, None)))
        elif act == "cancel" and jobs:
            world.roost.jobs.cancel(world.admin, dice.choice(jobs).id)
        elif act == "exit" and jobs:
            job = dice.choice(jobs)
            if job.state is JobState.RUNNING and world.agent(job.id).tasks:
                world.agent(job.id).exits(dice.choice((0, 1, 75)))
        elif act in ("stop", "start"):
            getattr(world.roost.workstations, act)(world.admin, desk.id)
        elif act == "reclaim":
            spot = [m for m in world.machines() if m.offer_id.endswith("spot")]
            if spot:
                world.cloud.reclaim(dice.choice(spot).id, notice_s=dice.choice((0.0, 20.0)))
        elif act == "price":
            changed = dice.choice(world.cloud.offers())
            world.cloud.set_price(changed.id, Decimal(dice.randint(1, 40)) / 100)
        world.tick(dice.randint(1, 2), dice.choice((1, 7.3, 40, 90)))
    world.tick(2)
    assert world.bill() > 0
    assert abs(machines_cost(world) - world.bill()) < EXACT, done
    assert abs(machines_cost(world, hourly=True) - world.bill()) < EXACT


def test_a_price_that_changes_shortly_before_the_end_is_charged(world: World) -> None:
    job = world.running_job(mode=SPOT)
    world.tick(2, 61)
    world.tick(1)
    world.cloud.set_price("fake/r/a/small/spot", Decimal("50"))
    world.clock.set(world.now + timedelta(seconds=30))
    world.cloud.reclaim(world.row(job).machine_id or "")
    world.roost.jobs.cancel(world.admin, job)
    world.tick(3)
    assert world.bill() > Decimal("0.4")
    assert abs(machines_cost(world) - world.bill()) < EXACT


def test_prices_that_could_not_be_asked_for_are_asked_for_later(world: World) -> None:
    job = world.running_job(mode=SPOT)
    world.tick(2, 61)
    world.cloud.set_price("fake/r/a/small/spot", Decimal("50"))
    prices = world.cloud.prices

    def fails(*_: object) -> object:
        raise ThrottledError("slowly")

    world.cloud.prices = fails  # type: ignore[method-assign,assignment]
    world.tick(1, 61)
    world.cloud.prices = prices  # type: ignore[method-assign]
    world.tick(2)
    world.roost.jobs.cancel(world.admin, job)
    world.tick(5, 10)
    assert abs(machines_cost(world) - world.bill()) < EXACT


def test_a_stopped_desk_pays_for_its_home_and_not_for_a_machine(either: World) -> None:
    world = either
    desk = world.ready_desk(volume_gib=100)
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    machine, home = machines_cost(world), homes_cost(world)
    world.tick(1, 3600)
    assert machines_cost(world) == machine
    month = Decimal("0.08") * 100
    assert abs(homes_cost(world) - home - month * Decimal(3600) / (730 * 3600)) < EXACT
    world.roost.workstations.delete(world.admin, desk)
    world.tick_until(lambda: not world.cloud.list().volumes, seconds=1)
    world.tick(1)
    paid = homes_cost(world)
    world.tick(3, 3600)
    assert homes_cost(world) == paid


def test_stop_and_start_are_intervals_of_their_own(world: World) -> None:
    """As a resize is: stopped, and started as something else."""
    desk = world.ready_desk()
    for _ in range(3):
        world.roost.workstations.stop(world.admin, desk)
        world.tick_until(lambda: world.state(desk) is I.STOPPED)
        world.tick(1, 1000)
        world.roost.workstations.start(world.admin, desk)
        world.tick_until(lambda: world.state(desk) is I.READY)
        world.tick(1, 500)
    page = world.roost.costs.intervals(world.admin, 2, None, desk)
    found = list(page.items)
    while page.next:
        page = world.roost.costs.intervals(world.admin, 2, page.next, desk)
        found += page.items
    runs = [v for v in found if v.price_per_hour is not None]
    assert len(runs) == 4
    assert all(a.end < b.start for a, b in itertools.pairwise(runs))
    assert [v.open for v in runs] == [False, False, False, True]
    assert abs(sum((v.cost or Decimal() for v in runs), Decimal()) - world.bill()) < EXACT


# ---- as people read them


def spend(world: World) -> None:
    world.team("vision", "100")
    world.team("speech")
    lena = world.person("lena", "vision", Role.LEAD)
    sam = world.person("sam", "speech", Role.LEAD)
    world.submit("birds", lena, mode=SPOT)
    world.submit("bats", lena, mode=ON_DEMAND)
    world.submit("words", sam)
    world.roost.workstations.create(lena, NewWorkstation("desk"))
    world.tick(5, 40)
    world.tick(2, 8 * 3600)


def show(world: World, group_by: str, team: str | None = "vision") -> CostView:
    return world.roost.costs.show(world.admin, team, group_by=group_by)


def test_groups_add_up_to_the_total(either: World) -> None:
    world = either
    spend(world)
    totals = set()
    for group in GROUPS:
        view = show(world, group)
        found = sum((row.cost for row in view.rows), Decimal())
        if group in ("job", "workstation"):
            assert 0 < found < view.total
        else:
            assert found == view.total
        totals.add(view.total)
        assert view.saved == view.on_demand_total - view.total > 0
        assert view.unknown_prices == 0
    assert len(totals) == 1
    assert {row.name for row in show(world, "job").rows} == {"birds", "bats"}
    assert {row.name for row in show(world, "person").rows} == {"lena"}
    assert [row.key for row in show(world, "day").rows] == ["2026-03-02", "2026-03-03"]


def test_an_unknown_group_is_refused(world: World) -> None:
    with pytest.raises(InvalidError, match="person, job, workstation"):
        show(world, "colour", None)


def test_two_teams_never_see_each_others_costs(either: World) -> None:
    world = either
    spend(world)
    everyone = {p.name: p for p in world.roost.people.people(world.admin, 9, None).items}

    def actor(name: str) -> Actor:
        p = everyone[name]
        return Actor(p.id, p.name, p.team_id, p.team_name, p.role)

    lena, sam = actor("lena"), actor("sam")
    for mine, other in ((lena, "speech"), (sam, "vision")):
        with pytest.raises(NotFoundError):
            world.roost.costs.show(mine, other)
        with pytest.raises(NotFoundError):
            world.roost.costs.focus_csv(mine, other)
        with pytest.raises(NotFoundError):
            world.roost.costs.report_html(mine, other)
    hers = {v.resource_id for v in world.roost.costs.intervals(lena, 99, None).items}
    his = {v.resource_id for v in world.roost.costs.intervals(sam, 99, None).items}
    assert hers
    assert his
    assert not hers & his
    ours = world.roost.costs.show(lena).total + world.roost.costs.show(sam).total
    assert abs(ours - machines_cost(world) - homes_cost(world)) < EXACT


def test_a_forecast_says_what_the_month_will_come_to(world: World) -> None:
    spend(world)
    view = show(world, "person")
    assert view.budget_amount == 100
    assert view.budget_spent == view.total
    assert view.budget_remaining is not None
    assert view.forecast is not None
    assert view.forecast_low is not None
    assert view.forecast_high is not None
    assert view.total <= view.forecast_low <= view.forecast <= view.forecast_high
    assert "insufficient history" in (view.forecast_note or "")


def test_a_report_is_made_with_and_without_data(world: World) -> None:
    empty = world.roost.costs.report_html(world.admin)
    assert "<html" in empty
    spend(world)
    full = world.roost.costs.report_html(world.admin, "vision")
    assert "birds" in full
    assert "words" not in full


def test_focus_holds_the_same_total(either: World) -> None:
    world = either
    spend(world)
    text = world.roost.costs.focus_csv(world.admin, "vision")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) > 48
    billed = sum((Decimal(row["BilledCost"]) for row in rows), Decimal())
    assert abs(billed - show(world, "person").total) < EXACT
    assert {row["BillingCurrency"] for row in rows} == {"USD"}
    empty = world.roost.costs.focus_csv(world.admin, "default")
    assert len(list(csv.reader(io.StringIO(empty)))) == 1


def test_a_span_that_ends_before_it_starts_is_refused(world: World) -> None:
    with pytest.raises(InvalidError, match="before it starts"):
        world.roost.costs.show(world.admin, None, START, START)


# ---- budgets


def race(world: World, count: int, start: Callable[[int], object]) -> list[bool]:
    together = Barrier(count)

    def one(n: int) -> bool:
        together.wait()
        try:
            start(n)
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.parametrize("kind", ["desks", "jobs", "starts"])
def test_ten_at_once_on_a_budget_for_three_are_exactly_three(either: World, kind: str) -> None:
    world = either
    world.team("vision")
    lena = world.person("lena", "vision", Role.LEAD)
    desks = []
    if kind == "starts":
        for n in range(10):
            desk = world.roost.workstations.create(lena, NewWorkstation(f"d{n}"))
            desks.append(world.roost.workstations.stop(lena, desk.id).id)
    world.roost.people.set_budget(world.admin, "vision", Decimal("7.50"), "USD")
    new = NewJob("train", argv=["true"], mode=ON_DEMAND, max_runtime_s=8 * 3600)
    act = {
        "desks": lambda n: world.roost.workstations.create(lena, NewWorkstation(f"d{n}")),
        "jobs": lambda n: world.roost.jobs.submit(lena, new),
        "starts": lambda n: world.roost.workstations.start(lena, desks[n]),
    }[kind]
    assert sum(race(world, 10, act)) == 3
    with world.store.read() as connection:
        held = ledger_rows.open_reservations(connection, lena.team_id or "")
    assert sum((r.amount for r in held), Decimal()) == Decimal("7.20")


def test_desks_of_one_name_at_once_are_one(either: World) -> None:
    world = either
    together = Barrier(6)

    def create(_n: int) -> str:
        together.wait()
        try:
            return world.roost.workstations.create(world.admin, NewWorkstation("desk")).name
        except RoostError as error:
            return error.code

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(create, range(6))) == [*["conflict"] * 5, "desk"]


def test_what_was_set_aside_is_used_up_by_what_is_spent(world: World) -> None:
    world.team("vision", "10")
    lena = world.person("lena", "vision", Role.LEAD)
    world.roost.workstations.create(lena, NewWorkstation("desk"))
    world.tick(5, 20)
    first = world.roost.costs.show(lena)
    assert first.budget_committed is not None
    world.tick(4, 3600)
    later = world.roost.costs.show(lena)
    assert later.budget_spent is not None
    assert later.budget_committed is not None
    assert later.budget_spent > first.total
    assert abs(later.budget_committed + later.budget_spent - Decimal("2.40")) < EXACT
    world.tick(5, 3600)
    assert world.roost.costs.show(lena).budget_committed == 0


def test_a_budget_in_a_currency_that_is_not_spent_in_stops_nobody(world: World) -> None:
    """Its lead is told; other teams' machines and jobs go on."""
    desk = world.ready_desk()
    world.team("vision")
    lena = world.person("lena", "vision", Role.LEAD)
    job = world.running_job("birds", lena)
    with pytest.raises(InvalidError, match="USD"):
        world.roost.people.set_budget(lena, "vision", Decimal(50), "EUR")
    world.roost.workstations.stop(world.admin, desk)
    world.tick_until(lambda: world.state(desk) is I.STOPPED)
    assert world.job(job).state is JobState.RUNNING


def test_usage_in_a_second_currency_does_not_stop_the_tick(
    make_world: Callable[..., World],
) -> None:
    world = make_world(
        clouds={
            "fake": [offer("a", ON_DEMAND)],
            "euro": [offer("a", ON_DEMAND, provider="euro", currency="EUR")],
        }
    )
    world.team("vision")
    lena = world.person("lena", "vision", Role.LEAD)
    for provider in ("fake", "euro"):
        world.running_job(provider, lena, provider=provider)
    world.roost.people.set_budget(world.admin, "default", Decimal(9), "USD")
    world.tick(3, 60)
    with pytest.raises(InvalidError, match=r"EUR and USD|USD and EUR"):
        world.roost.costs.show(lena)
