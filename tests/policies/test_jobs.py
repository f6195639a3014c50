"""What is done about jobs and their machines, rule by rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from policies.plan import ActionKind, Decision, Rank
from policies.world import (
    Condition,
    Cooldown,
    InstanceState,
    JobState,
    Needs,
    OwnerKind,
    PurchaseMode,
    Resources,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SPOT_FIRST = "capacity: {prefer: spot, fall_back_to: on_demand, fall_back_when: {no_spot_for: 10m}}"
SPOT, ON_DEMAND = PurchaseMode.SPOT, PurchaseMode.ON_DEMAND


def job_decision(build: Any, *policies: Any, **changes: Any) -> Decision:
    world = {k: changes.pop(k) for k in ("offers", "cooldowns", "budgets") if k in changes}
    return build.decision("job-1", *policies, jobs=(build.job(**changes),), **world)  # type: ignore[no-any-return]


def modes(decision: Decision) -> list[PurchaseMode]:
    return [offer.mode for offer in decision.offers]


def rules(decision: Decision) -> list[str]:
    return [reason.rule for reason in decision.because]


def spot_cooled(build: Any) -> Cooldown:
    return Cooldown(build.spot().id, NOON + timedelta(hours=1), "no capacity")


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.INTERRUPTED])
def test_a_waiting_job_is_placed_on_the_cheapest(build: Any, state: JobState) -> None:
    decision = job_decision(build, state=state)
    assert (decision.action, modes(decision)) == (ActionKind.LAUNCH, [SPOT, ON_DEMAND])


@pytest.mark.parametrize(
    "state", [s for s in JobState if s not in {JobState.QUEUED, JobState.INTERRUPTED}]
)
def test_any_other_job_is_left_with_a_reason(build: Any, state: JobState) -> None:
    decision = job_decision(build, state=state, attempt=1)
    assert decision.action is ActionKind.NOTHING
    assert decision.because[0].observed == state


def test_a_running_job_says_why_it_is_on_spot(build: Any) -> None:
    job = build.job(state=JobState.RUNNING, attempt=1, instance_ids=("i-1",), work_left_s=3600,
                    deadline=NOON + timedelta(hours=5))  # fmt: skip
    machine = build.instance(job, offer=build.spot())
    decision = build.decision("job-1", build.policy(SPOT_FIRST), jobs=(job,), instances=(machine,))
    assert rules(decision) == ["job.state", "capacity.prefer", "spot.deadline"]
    assert "allows spot until 15:55" in decision.because[2].text


@pytest.mark.parametrize(
    ("needs", "action"),
    [
        ({"mode": ON_DEMAND}, [ON_DEMAND]),
        ({"mode": PurchaseMode.RESERVED}, []),
        ({"provider": "AWS"}, [SPOT, ON_DEMAND]),
        ({"provider": "gce"}, []),
        ({"region": "eu-west-1"}, []),
        ({"max_price_per_hour": Decimal("0.99")}, [SPOT]),
        ({"resources": Resources(4, 16)}, [SPOT, ON_DEMAND]),
        ({"resources": Resources(5, 16)}, []),
        ({"resources": Resources(4, 17)}, []),
        ({"resources": Resources(1, 1, gpus=1)}, []),
        ({"resources": Resources(1, 1, gpu_model="L4")}, []),
    ],
)
def test_needs_are_met(build: Any, needs: dict[str, Any], action: list[PurchaseMode]) -> None:
    asked = Needs(**{"resources": Resources(1, 1), **needs})
    assert modes(job_decision(build, needs=asked)) == action


# Purchase strategy


def test_spot_is_preferred_and_on_demand_waits(build: Any) -> None:
    assert modes(job_decision(build, build.policy(SPOT_FIRST))) == [SPOT]


@pytest.mark.parametrize(("minutes", "expected"), [(None, []), (9, []), (10, [ON_DEMAND])])
def test_without_spot_it_falls_back_after_a_while(
    build: Any, minutes: int | None, expected: list[PurchaseMode]
) -> None:
    decision = job_decision(
        build,
        build.policy(SPOT_FIRST),
        cooldowns=(spot_cooled(build),),
        no_spot_since=build.minutes_ago(minutes) if minutes else None,
    )
    assert modes(decision) == expected
    assert "capacity.fall_back_when.no_spot_for" in rules(decision)


def test_where_no_spot_is_sold_there_is_nothing_to_wait_for(build: Any) -> None:
    decision = job_decision(build, build.policy(SPOT_FIRST), offers=(build.offer(),))
    assert modes(decision) == [ON_DEMAND]


def test_a_free_machine_is_as_good_as_spot(build: Any) -> None:
    free = build.offer(provider="local", price="0")
    decision = job_decision(build, build.policy(SPOT_FIRST), offers=(build.spot(), free))
    assert [offer.provider for offer in decision.offers] == ["local", "aws"]


def test_a_preference_without_a_second_buys_nothing_else(build: Any) -> None:
    policy = build.policy("capacity: {prefer: spot}")
    decision = job_decision(build, policy, offers=(build.offer(),))
    assert decision.action is ActionKind.NOTHING
    on_demand_first = build.policy("capacity: {prefer: on_demand, fall_back_to: spot}")
    assert modes(job_decision(build, on_demand_first)) == [ON_DEMAND, SPOT]


@pytest.mark.parametrize(
    ("minutes_left", "expected"),
    [(300, [SPOT]), (60, [SPOT]), (59, [ON_DEMAND, SPOT]), (-5, [ON_DEMAND, SPOT])],
)
def test_a_deadline_is_kept_before_money_is_saved(
    build: Any, minutes_left: float, expected: list[PurchaseMode]
) -> None:
    """55 minutes of work, two moves of a minute, and 5 % (2.75 minutes) of slack."""
    decision = job_decision(
        build,
        build.policy(SPOT_FIRST),
        deadline=NOON + timedelta(minutes=minutes_left),
        work_left_s=55 * 60,
        changeover_s=60,
    )
    assert modes(decision) == expected
    assert "spot.deadline" in rules(decision)


def test_a_deadline_with_unknown_work_keeps_half_the_time_and_says_so(build: Any) -> None:
    for queued, expected in ((29, [SPOT]), (31, [ON_DEMAND, SPOT])):
        decision = job_decision(
            build,
            build.policy(SPOT_FIRST),
            queued_at=build.minutes_ago(queued),
            deadline=NOON + timedelta(minutes=60 - queued),
        )
        assert modes(decision) == expected
        assert any("nobody knows its work left" in reason.text for reason in decision.because)


def test_a_deadline_does_not_buy_what_is_not_allowed(build: Any) -> None:
    policy = build.policy(f"{SPOT_FIRST}\nallow: {{purchase: [spot]}}")
    assert modes(job_decision(build, policy, deadline=NOON, work_left_s=60.0)) == [SPOT]


# Budget


@pytest.mark.parametrize(
    ("do", "expected"),
    [("notify", [SPOT, ON_DEMAND]), ("spot_only", [SPOT]), ("no_new", []), ("stop", [])],
)
def test_budget_steps_narrow_what_is_bought(
    build: Any, do: str, expected: list[PurchaseMode]
) -> None:
    policy = build.policy(f"budget: {{steps: [{{forecast_reaches: 80%, do: [{do}]}}]}}")
    budget = build.budget(forecast="800")
    decision = job_decision(build, policy, budgets=(budget,))
    assert modes(decision) == expected
    if not expected:
        assert decision.because[0].rank is Rank.SOFT_BUDGET
        assert decision.because[0].where == "p.yaml:3"
    free = build.offer(price="0")
    assert modes(job_decision(build, policy, budgets=(budget,), offers=(free,))) == [ON_DEMAND]


def test_without_history_a_forecast_step_is_not_applied(build: Any) -> None:
    policy = build.policy("budget: {steps: [{forecast_reaches: 1%, do: [stop]}]}")
    assert job_decision(build, policy, budgets=(build.budget("999"),)).offers


def test_a_stop_goes_by_the_lower_edge_of_the_forecast(build: Any) -> None:
    policy = build.policy("budget: {steps: [{forecast_reaches: 100%, do: [stop]}]}")
    for low, launched in (("999", True), ("1000", False)):
        budget = build.budget(forecast="2000", forecast_low=Decimal(low))
        assert bool(job_decision(build, policy, budgets=(budget,)).offers) == launched


@pytest.mark.parametrize(
    ("state", "price", "action"),
    [
        (InstanceState.READY, "1", ActionKind.DRAIN),
        (InstanceState.BOOTING, "1", ActionKind.TERMINATE),
        (InstanceState.LAUNCHING, "1", ActionKind.TERMINATE),
        (InstanceState.DRAINING, "1", ActionKind.NOTHING),
        (InstanceState.READY, "0", ActionKind.NOTHING),
    ],
)
def test_spent_money_drains_running_jobs(
    build: Any, state: InstanceState, price: str, action: ActionKind
) -> None:
    policy = build.policy("budget: {steps: [{spend_reaches: 100%, do: [stop]}]}")
    job = build.job(state=JobState.RUNNING, attempt=1, instance_ids=("i-1",))
    machine = build.instance(job, state=state, offer=build.offer(price=price))
    world = {"jobs": (job,), "instances": (machine,), "budgets": (build.budget("1000"),)}
    decision = build.decision("i-1", policy, **world)
    assert decision.action is action
    if action is ActionKind.DRAIN:
        assert decision.because[0].where == "p.yaml:3"
        about_job = build.decision("job-1", policy, **world)
        assert about_job.because[0].rank is Rank.HARD_BUDGET


# Hours, idleness, limits


@pytest.mark.parametrize(
    ("who", "launched"),
    [("{}", True), ("{kind: job}", False), ("{kind: [job, workstation]}", False)],
)
def test_hours_hold_launches_back_only_where_jobs_are_named(
    build: Any, who: str, launched: bool
) -> None:
    policy = build.policy(f"applies_to: {who}\nhours: {{open: [mon 01:00-02:00]}}")
    decision = job_decision(build, policy)
    assert bool(decision.offers) == launched
    if not launched:
        assert decision.because[0].rank is Rank.HOURS
    job = build.job(state=JobState.RUNNING, attempt=1, instance_ids=("i-1",))
    running = build.decision("i-1", policy, jobs=(job,), instances=(build.instance(job),))
    assert running.action is ActionKind.NOTHING


def test_idle_says_nothing_of_jobs(build: Any) -> None:
    policy = build.policy("applies_to: {kind: job}\nidle: {when: {no_input: true}, for: 1m}")
    job = build.job(state=JobState.RUNNING, attempt=1, instance_ids=("i-1",))
    machine = build.instance(job, cpu_percent=0.0)
    plan = build.plan(policy, jobs=(job,), instances=(machine,))
    assert {d.action for d in plan.decisions} == {ActionKind.NOTHING}


def test_jobs_take_seats_in_the_order_of_their_queue(build: Any) -> None:
    policy = build.policy("allow: {instances_per_user: 2}")
    jobs = tuple(build.job(id=f"job-{n}", queued_at=build.minutes_ago(n)) for n in range(1, 5))
    desk = build.workstation(instance_id="i-1")
    plan = build.plan(policy, jobs=jobs, workstations=(desk,), instances=(build.instance(desk),))
    launched = [d.target_id for d in plan.decisions if d.action is ActionKind.LAUNCH]
    assert launched == ["job-4"]


def test_a_job_needs_a_seat_for_each_of_its_nodes(build: Any) -> None:
    policy = build.policy("allow: {instances_per_user: 2}")
    assert job_decision(build, policy, nodes=2).offers
    assert not job_decision(build, policy, nodes=3).offers


# Machines


@pytest.mark.parametrize(
    ("job", "machine", "action"),
    [
        ({"state": JobState.RUNNING}, {}, ActionKind.NOTHING),
        ({"state": JobState.PLACING}, {"state": InstanceState.BOOTING}, ActionKind.NOTHING),
        ({"state": JobState.PAUSED}, {}, ActionKind.NOTHING),
        ({"state": JobState.SUCCEEDED}, {}, ActionKind.TERMINATE),
        ({"state": JobState.CANCELLED}, {"state": InstanceState.LAUNCHING}, ActionKind.TERMINATE),
        ({"state": JobState.FAILED}, {"state": InstanceState.LOST}, ActionKind.TERMINATE),
        ({"state": JobState.SUCCEEDED}, {"state": InstanceState.DRAINING}, ActionKind.TERMINATE),
        ({"state": JobState.SUCCEEDED}, {"state": InstanceState.STOPPED}, ActionKind.TERMINATE),
        ({"state": JobState.SUCCEEDED}, {"state": InstanceState.TERMINATING}, ActionKind.NOTHING),
        ({"state": JobState.RUNNING}, {"attempt": 0}, ActionKind.TERMINATE),
        ({"state": JobState.RUNNING, "instance_ids": ("i-2",)}, {}, ActionKind.TERMINATE),
        ({"state": JobState.QUEUED}, {}, ActionKind.TERMINATE),
        ({"state": JobState.QUEUED}, {"state": InstanceState.DRAINING}, ActionKind.NOTHING),
        ({"state": JobState.RUNNING}, {"state": InstanceState.LOST}, ActionKind.NOTHING),
        (
            {"state": JobState.RUNNING},
            {"conditions": frozenset({Condition.INTERRUPTING})},
            ActionKind.DRAIN,
        ),
        (
            {"state": JobState.RUNNING},
            {"notice_deadline": NOON + timedelta(minutes=2)},
            ActionKind.DRAIN,
        ),
        (
            {"state": JobState.RUNNING},
            {"notice_deadline": NOON, "state": InstanceState.DRAINING},
            ActionKind.NOTHING,
        ),
        ({"id": "job-2"}, {"owner_id": "job-1"}, ActionKind.TERMINATE),
        ({}, {"owner_kind": OwnerKind.NONE, "owner_id": None}, ActionKind.TERMINATE),
    ],
)
def test_the_machine_of_a_job(
    build: Any, job: dict[str, Any], machine: dict[str, Any], action: ActionKind
) -> None:
    owner = build.job(**{"attempt": 1, "instance_ids": ("i-1",), **job})
    instance = build.instance(owner, **machine)
    decision = build.decision("i-1", jobs=(owner,), instances=(instance,))
    assert decision.action is action
    assert decision.because
    assert decision.instance_id == ("i-1" if action is not ActionKind.NOTHING else None)


@pytest.mark.parametrize(
    ("instance_id", "action"), [("i-1", ActionKind.NOTHING), ("i-2", ActionKind.TERMINATE),
                                (None, ActionKind.TERMINATE)]
)  # fmt: skip
def test_the_machine_of_a_workstation(
    build: Any, instance_id: str | None, action: ActionKind
) -> None:
    desk = build.workstation(instance_id=instance_id)
    decision = build.decision("i-1", workstations=(desk,), instances=(build.instance(desk),))
    assert decision.action is action


def test_an_ended_machine_is_no_target(build: Any) -> None:
    machine = build.instance(state=InstanceState.TERMINATED)
    assert build.plan(instances=(machine,)).decisions == ()
