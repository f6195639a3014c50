"""The whole function: golden plans, any order of input, and a world that comes to rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.decide import decide
from policies.loading import load_policy
from policies.plan import ActionKind, Plan, TargetKind
from policies.world import (
    Desire,
    Hold,
    Instance,
    InstanceState,
    JobState,
    OwnerKind,
    PurchaseMode,
    Snapshot,
    Workstation,
)

POLICIES = {
    "hours": "hours: {timezone: Europe/Berlin, open: [mon-fri 08:00-19:00]}",
    "nights": "hours: {timezone: America/New_York, open: [22:00-06:00], outside: terminate}",
    "idle": "idle: {when: {no_input: true, gpu_below: 5%}, for: 30m, warn: 10m}",
    "ends": "idle: {when: {no_input: true}, for: 2h, then: terminate}",
    "spot": "capacity: {prefer: spot, fall_back_to: on_demand, fall_back_when: {no_spot_for: 5m}}",
    "ttl": "allow: {ttl: 20h, instances_per_user: 2}",
}


@cache
def policy(name: str) -> Any:
    return load_policy(f"policy: {name}\nversion: 1\n{POLICIES[name]}", f"{name}.yaml")


def town(build: Any) -> Snapshot:
    """A little of everything."""
    desks = tuple(
        build.workstation(id=f"ws-{n}", user=f"u{n % 3}", instance_id=f"i-{n}" if n % 2 else None)
        for n in range(6)
    )
    jobs = tuple(
        build.job(
            id=f"job-{n}",
            user=f"u{n % 3}",
            state=list(JobState)[n % len(JobState)],
            attempt=1,
            instance_ids=(f"j-{n}",),
            queued_at=build.minutes_ago(n % 3),
        )
        for n in range(10)
    )
    machines = [build.instance(d, id=d.instance_id) for d in desks if d.instance_id]
    machines += [build.instance(job, id=job.instance_ids[0]) for job in jobs]
    offers = tuple(
        build.offer(mode, "0.50", region=f"eu-{n}")
        for n in range(4)
        for mode in (PurchaseMode.SPOT, PurchaseMode.ON_DEMAND)
    )
    return build.snapshot(  # type: ignore[no-any-return]
        offers=offers,
        workstations=desks,
        jobs=jobs,
        instances=tuple(machines),
        budgets=(build.budget("950"), replace(build.budget(), team="sales")),
    )


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_input_does_not_matter(build: Any, random: Any) -> None:
    world = town(build)
    policies = [policy(name) for name in POLICIES]
    expected = decide(world, policies)

    def shuffled(values: Any) -> Any:
        mixed = list(values)
        random.shuffle(mixed)
        return tuple(mixed)

    mixed = replace(
        world,
        offers=shuffled(world.offers),
        workstations=shuffled(world.workstations),
        jobs=shuffled(world.jobs),
        instances=shuffled(world.instances),
        budgets=shuffled(world.budgets),
    )
    assert decide(mixed, shuffled(policies)) == expected


def test_every_target_has_exactly_one_decision_with_a_reason(build: Any) -> None:
    world = town(build)
    plan = decide(world, [policy("spot")])
    targets = [(d.target_kind, d.target_id) for d in plan.decisions]
    assert targets == sorted(targets)
    assert set(targets) == (
        {(TargetKind.WORKSTATION, w.id) for w in world.workstations}
        | {(TargetKind.JOB, job.id) for job in world.jobs}
        | {(TargetKind.INSTANCE, i.id) for i in world.instances}
        | {(TargetKind.TEAM, b.team) for b in world.budgets}
    )
    assert len(set(targets)) == len(targets)
    assert all(decision.because for decision in plan.decisions)
    for decision in plan.decisions:
        assert bool(decision.offers) == (decision.action is ActionKind.LAUNCH)


def test_equal_prices_are_told_apart_by_id(build: Any) -> None:
    offers = tuple(build.spot(region=region) for region in ("us-2", "eu-1", "ap-3"))
    decision = build.decision("job-1", jobs=(build.job(),), offers=offers)
    assert [offer.region for offer in decision.offers] == ["ap-3", "eu-1", "us-2"]


def test_prices_compare_within_a_currency_and_free_comes_first(build: Any) -> None:
    offers = (
        build.spot("0.10", region="a", currency="USD"),
        build.spot("9.00", region="b", currency="EUR"),
        build.spot("0", region="c", currency="USD"),
        build.spot("0.05", region="d", currency="USD"),
    )
    decision = build.decision("job-1", jobs=(build.job(),), offers=offers)
    assert [offer.region for offer in decision.offers] == ["c", "b", "d", "a"]


def test_of_many_offers_left_out_the_first_are_kept_and_all_are_counted(build: Any) -> None:
    offers = tuple(build.offer(kind=f"t{n}") for n in range(120))
    decision = build.decision(
        "job-1", build.policy("allow: {regions: [eu-*]}"), jobs=(build.job(),), offers=offers
    )
    assert len(decision.instead_of) == 51
    assert "none of 120 offers" in decision.because[0].text


@pytest.mark.parametrize(
    ("spent", "forecast", "rules"),
    [
        ("0", None, []),
        ("0", "799", []),
        ("0", "800", ["budget.steps[0].forecast_reaches"]),
        ("1000", "1200", ["budget.steps[0].forecast_reaches", "budget.steps[1].spend_reaches"]),
    ],
)
def test_a_team_is_told_of_the_steps_it_has_reached(
    build: Any, spent: str, forecast: str | None, rules: list[str]
) -> None:
    steps = "[{forecast_reaches: 80%, do: [notify]}, {spend_reaches: 100%, do: [notify, stop]}]"
    team = build.policy(f"applies_to: {{team: research}}\nbudget: {{steps: {steps}}}")
    decision = build.decision("research", team, budgets=(build.budget(spent, forecast),))
    assert decision.action is (ActionKind.NOTIFY if rules else ActionKind.NOTHING)
    if rules:
        assert [reason.rule for reason in decision.because] == rules
    ahead = [r.text for item in decision.instead_of for r in item.reasons]
    assert any("too little history" in text for text in ahead) == (forecast is None)


def test_a_team_is_told_by_the_upper_edge_of_its_forecast(build: Any) -> None:
    team = build.policy("budget: {steps: [{forecast_reaches: 80%, do: [notify]}]}")
    budget = build.budget(forecast="100")
    for high, action in (("799", ActionKind.NOTHING), ("800", ActionKind.NOTIFY)):
        wide = replace(budget, forecast_high=type(budget.amount)(high))
        assert build.decision("research", team, budgets=(wide,)).action is action


def test_a_budget_of_nothing_is_reached_at_once(build: Any) -> None:
    team = build.policy("budget: {steps: [{spend_reaches: 100%, do: [notify]}]}")
    budget = replace(build.budget(), amount=build.budget().spent)
    assert build.decision("research", team, budgets=(budget,)).action is ActionKind.NOTIFY


def test_an_empty_world_has_an_empty_plan(build: Any) -> None:
    assert build.plan() == Plan("snap-1", ())


# A world that comes to rest


def settle(
    build: Any, world: Snapshot, policies: list[Any], counts: Counter[ActionKind]
) -> Snapshot:
    """Do what is planned, at once and without fail, until nothing is; one desk, one machine."""
    for _ in range(6):
        (decision,) = [
            d for d in decide(world, policies).decisions if d.target_kind is TargetKind.WORKSTATION
        ]
        (desk,) = world.workstations
        if desk.warned_at is not None and decision.acts_at is None:
            desk = replace(desk, warned_at=None)
        if decision.action is ActionKind.NOTHING:
            return replace(world, workstations=(desk,))
        counts[decision.action] += 1
        if decision.action is ActionKind.WARN:
            # A later warning may announce another stop, which has a warning of its own.
            fresh = desk.warned_at is None or desk.warned_at < world.now
            assert fresh, f"warned twice {decision} {desk}"
            desk = replace(desk, warned_at=world.now)
            world = replace(world, workstations=(desk,))
            continue
        desk, machines = done(build, world, desk, decision)
        world = replace(world, workstations=(desk,), instances=machines)
    raise AssertionError(f"no rest at {world.now}: {counts}")


def done(
    build: Any, world: Snapshot, desk: Workstation, decision: Any
) -> tuple[Workstation, tuple[Instance, ...]]:
    now = world.now
    if decision.action is ActionKind.LAUNCH:
        number = len(world.instances)
        machine = Instance(
            id=f"i-{number}",
            owner_kind=OwnerKind.WORKSTATION,
            owner_id=desk.id,
            attempt=1,
            state=InstanceState.READY,
            offer=decision.offers[0],
            created_at=now,
            ready_at=now,
            agent_seen_at=now,
        )
        return replace(desk, instance_id=machine.id, waiting_since=None), (
            *world.instances,
            machine,
        )
    (machine,) = [i for i in world.instances if i.id == decision.instance_id]
    others = tuple(i for i in world.instances if i is not machine)
    if decision.action is ActionKind.START:
        return desk, (*others, replace(machine, state=InstanceState.READY, ready_at=now))
    ended = decision.action is ActionKind.TERMINATE
    state = InstanceState.TERMINATED if ended else InstanceState.STOPPED
    if ended:
        desk = replace(desk, waiting_since=now)
    return desk, (*others, replace(machine, state=state))


@settings(max_examples=15, deadline=None)
@given(
    st.sets(st.sampled_from(sorted(POLICIES))),
    st.integers(0, 7 * 24 * 4),
    st.lists(st.sampled_from(["input", "start", "preempt", "hold", "free", ""]), max_size=40),
    st.booleans(),
)
def test_an_unchanged_world_comes_to_rest_and_stays_so(
    build: Any, names: set[str], start: int, events: list[str], spot: bool
) -> None:
    """Every quarter of an hour something may happen; nothing flaps, whatever the policies."""
    now = datetime(2026, 3, 25, tzinfo=UTC) + timedelta(minutes=15 * start)
    policies = [policy(name) for name in sorted(names)]
    desk = build.workstation(started_by_person_at=now, waiting_since=now)
    world = build.snapshot(
        now=now, workstations=(desk,), offers=(build.spot() if spot else build.offer(),)
    )
    counts: Counter[ActionKind] = Counter()
    for step in range(96 * 2):
        world = happen(world, events[step] if step < len(events) else "")
        machines = tuple(replace(i, agent_seen_at=world.now) for i in world.instances)
        world = settle(build, replace(world, instances=machines), policies, counts)
        again = Counter(counts)
        assert settle(build, world, policies, again) == world
        assert again == counts, "a second look planned something else"
        world = replace(world, now=world.now + timedelta(minutes=15))
    brought_back = 2 * 2 + len([e for e in events if e in {"start", "preempt", "hold", "input"}])
    assert counts[ActionKind.START] + counts[ActionKind.LAUNCH] <= 1 + brought_back


def happen(world: Snapshot, event: str) -> Snapshot:
    (desk,) = world.workstations
    if event == "input":
        desk = replace(desk, last_activity_at=world.now)
    elif event == "start":
        desk = replace(desk, started_by_person_at=world.now, desire=Desire.ON, hold=None)
    elif event == "hold":
        desk = replace(desk, hold=Hold("keep-running", world.now + timedelta(hours=2), "ana"))
    elif event == "free":
        desk = replace(desk, hold=None)
    elif event == "preempt":
        lost = [i for i in world.instances if i.id == desk.instance_id and i.state.live]
        machines = tuple(
            replace(i, state=InstanceState.TERMINATED) if i in lost else i for i in world.instances
        )
        if lost:
            desk = replace(desk, waiting_since=world.now)
        world = replace(world, instances=machines)
    return replace(world, workstations=(desk,))
