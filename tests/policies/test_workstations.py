"""What is done about a workstation, rule by rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from policies.plan import ActionKind, Decision, Rank
from policies.world import (
    Condition,
    Cooldown,
    Desire,
    Hold,
    InstanceState,
    PurchaseMode,
)

HOURS = "hours: {timezone: Europe/Berlin, open: [mon-fri 08:00-19:00]}"
IDLE = "idle: {when: {no_input: true, gpu_below: 5%}, for: 30m, warn: 10m}"
QUICK = "idle: {when: {no_input: true}, for: 30m}"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
EVENING = datetime(2026, 3, 2, 18, 4, tzinfo=UTC)  # 19:04 in Berlin


def told(decision: Decision) -> str:
    reasons = [*decision.because, *(r for item in decision.instead_of for r in item.reasons)]
    return "\n".join(f"{reason.text} ({reason.where})" for reason in reasons)


def ranks(decision: Decision) -> list[Rank]:
    return [reason.rank for reason in decision.because]


# Wishes


@pytest.mark.parametrize("state", [None, InstanceState.TERMINATED, InstanceState.FAILED])
def test_wanted_on_without_a_machine_it_is_launched(
    build: Any, state: InstanceState | None
) -> None:
    workstation = build.workstation(instance_id="i-1" if state else None)
    instances = (build.instance(workstation, state=state),) if state else ()
    decision = build.decision("ws-ana", workstations=(workstation,), instances=instances)
    assert decision.action is ActionKind.LAUNCH
    # Nobody asked for spot, so the dearer one that nobody takes away comes first.
    assert [offer.mode.value for offer in decision.offers] == ["on-demand", "spot"]
    assert decision.instance_id is None


@pytest.mark.parametrize("state", [InstanceState.STOPPED, InstanceState.HIBERNATED])
def test_wanted_on_with_a_stopped_machine_it_is_started(build: Any, state: InstanceState) -> None:
    decision = build.desk(state=state)
    assert (decision.action, decision.instance_id) == (ActionKind.START, "i-1")


@pytest.mark.parametrize(
    "state",
    [
        InstanceState.PLANNED,
        InstanceState.LAUNCHING,
        InstanceState.BOOTING,
        InstanceState.STOPPING,
        InstanceState.STARTING,
        InstanceState.DRAINING,
        InstanceState.TERMINATING,
        InstanceState.LOST,
    ],
)
def test_in_transition_nothing_is_done(build: Any, state: InstanceState) -> None:
    policy = build.policy(HOURS)
    decision = build.desk(policy, at=EVENING, state=state)
    assert (decision.action, decision.instance_id) == (ActionKind.NOTHING, None)
    assert decision.because[0].observed == state


@pytest.mark.parametrize(
    ("state", "can_stop", "action"),
    [
        (InstanceState.READY, True, ActionKind.STOP),
        (InstanceState.BOOTING, True, ActionKind.STOP),
        (InstanceState.READY, False, ActionKind.TERMINATE),
        (InstanceState.STOPPED, True, ActionKind.NOTHING),
        (InstanceState.LOST, True, ActionKind.NOTHING),
        (InstanceState.LAUNCHING, True, ActionKind.NOTHING),
        (InstanceState.TERMINATED, True, ActionKind.NOTHING),
    ],
)
def test_wanted_off(build: Any, state: InstanceState, can_stop: bool, action: ActionKind) -> None:
    decision = build.desk(desire=Desire.OFF, state=state, offer=build.offer(can_stop=can_stop))
    assert decision.action is action


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (InstanceState.READY, ActionKind.TERMINATE),
        (InstanceState.STOPPED, ActionKind.TERMINATE),
        (InstanceState.LAUNCHING, ActionKind.TERMINATE),
        (InstanceState.LOST, ActionKind.TERMINATE),
        (InstanceState.TERMINATING, ActionKind.NOTHING),
        (InstanceState.TERMINATED, ActionKind.DELETE_VOLUME),
    ],
)
def test_removed(build: Any, state: InstanceState, action: ActionKind) -> None:
    keep = Hold("keep-running", None, "ana")
    decision = build.desk(desire=Desire.GONE, state=state, hold=keep)
    assert decision.action is action


# Hours


def test_at_closing_it_is_stopped_and_the_line_is_named(build: Any) -> None:
    decision = build.desk(build.policy(HOURS, file="research-gpu.yaml"), at=EVENING)
    assert (decision.action, decision.instance_id) == (ActionKind.STOP, "i-1")
    assert told(decision).startswith(
        "hours.open ended 19:00 Europe/Berlin, next 2026-03-03 08:00 (research-gpu.yaml:3)"
    )


@pytest.mark.parametrize(
    ("extra", "can_stop", "action"),
    [
        ("stop", True, ActionKind.STOP),
        ("stop", False, ActionKind.TERMINATE),
        ("terminate", True, ActionKind.TERMINATE),
        ("allow", True, ActionKind.NOTHING),
    ],
)
def test_what_happens_outside(build: Any, extra: str, can_stop: bool, action: ActionKind) -> None:
    policy = build.policy(HOURS.replace("]}", f"], outside: {extra}}}"))
    decision = build.desk(policy, at=EVENING, offer=build.offer(can_stop=can_stop))
    assert decision.action is action


def test_while_open_the_reason_for_doing_nothing_is_given(build: Any) -> None:
    decision = build.desk(build.policy(HOURS))
    assert decision.action is ActionKind.NOTHING
    assert "hours.open lasts until 19:00" in told(decision)


@pytest.mark.parametrize(
    ("started", "at", "action"),
    [
        ("2026-03-02T07:30", EVENING, ActionKind.STOP),  # in the morning
        ("2026-03-02T17:59", EVENING, ActionKind.STOP),  # a minute before closing
        ("2026-03-02T18:00", EVENING, ActionKind.NOTHING),  # at closing
        ("2026-03-02T22:30", datetime(2026, 3, 3, 6, 59, tzinfo=UTC), ActionKind.NOTHING),
        ("2026-03-02T22:30", datetime(2026, 3, 3, 7, 0, tzinfo=UTC), ActionKind.NOTHING),  # open
        ("2026-03-02T22:30", datetime(2026, 3, 3, 18, 0, tzinfo=UTC), ActionKind.STOP),
    ],
)
def test_a_persons_start_stands_until_the_next_boundary(
    build: Any, started: str, at: datetime, action: ActionKind
) -> None:
    moment = datetime.fromisoformat(started).replace(tzinfo=UTC)
    decision = build.desk(build.policy(HOURS), at=at, started_by_person_at=moment)
    assert decision.action is action


def test_outside_of_hours_a_stopped_one_is_not_started_again(build: Any) -> None:
    policy = build.policy(HOURS)
    decision = build.desk(policy, at=EVENING, state=InstanceState.STOPPED)
    assert (decision.action, ranks(decision)) == (ActionKind.NOTHING, [Rank.HOURS])
    assert decision.instead_of[0].what == "start"


def test_outside_of_hours_none_is_launched_unless_a_person_starts_it(build: Any) -> None:
    policy, old = build.policy(HOURS), EVENING - timedelta(hours=9)
    for started, action in ((old, ActionKind.NOTHING), (EVENING, ActionKind.LAUNCH)):
        workstation = build.workstation(started_by_person_at=started, waiting_since=EVENING)
        decision = build.decision("ws-ana", policy, now=EVENING, workstations=(workstation,))
        assert decision.action is action


def test_hours_that_name_no_zone_take_the_teams(build: Any) -> None:
    policy = build.policy("hours: {open: [mon-fri 08:00-19:00]}")
    for zone, action in (("Europe/Berlin", ActionKind.STOP), ("UTC", ActionKind.NOTHING)):
        decision = build.desk(policy, at=EVENING, team_timezones=(("research", zone),))
        assert decision.action is action


def test_hours_of_another_team_or_kind_say_nothing(build: Any) -> None:
    for who in ("{team: sales}", "{kind: job}", "{user: bob}", "{label: night}", "{provider: gce}"):
        policy = build.policy(f"applies_to: {who}\n{HOURS}")
        assert build.desk(policy, at=EVENING).action is ActionKind.NOTHING


@pytest.mark.parametrize(
    "who", ["{}", "{label: night}", "{label: 'shift=late'}", "{label: [x, night]}"]
)
def test_labels_select(build: Any, who: str) -> None:
    policy = build.policy(f"applies_to: {who}\n{HOURS}")
    labels = (("night", ""), ("shift", "late"))
    assert build.desk(policy, at=EVENING, labels=labels).action is ActionKind.STOP


# Idle


def idle(build: Any, minutes: float, body: str = IDLE, **changes: Any) -> Decision:
    used = build.minutes_ago(minutes)
    return build.desk(build.policy(body), last_activity_at=used, **changes)  # type: ignore[no-any-return]


def test_idle_is_announced_and_then_stopped(build: Any) -> None:
    assert idle(build, 19).action is ActionKind.NOTHING
    warning = idle(build, 21)
    assert (warning.action, warning.instance_id) == (ActionKind.WARN, None)
    assert warning.acts_at == NOON + timedelta(minutes=10)
    waiting = idle(build, 29, warned_at=build.minutes_ago(8))
    assert (waiting.action, waiting.acts_at) == (ActionKind.NOTHING, NOON + timedelta(minutes=2))
    stop = idle(build, 31, warned_at=build.minutes_ago(10))
    assert (stop.action, stop.acts_at) == (ActionKind.STOP, None)


def test_a_late_warning_still_gives_its_time(build: Any) -> None:
    warning = idle(build, 300)
    assert (warning.action, warning.acts_at) == (ActionKind.WARN, NOON + timedelta(minutes=10))
    assert idle(build, 300, warned_at=build.minutes_ago(9)).action is ActionKind.NOTHING
    assert idle(build, 300, warned_at=build.minutes_ago(10)).action is ActionKind.STOP


def test_a_warning_from_before_the_last_use_is_void(build: Any) -> None:
    assert idle(build, 35, warned_at=build.minutes_ago(36)).action is ActionKind.WARN
    assert idle(build, 5, warned_at=build.minutes_ago(20)).acts_at is None


def test_without_a_warning_in_the_policy_it_stops_at_once(build: Any) -> None:
    assert idle(build, 30, QUICK).action is ActionKind.STOP
    assert idle(build, 29.9, QUICK).action is ActionKind.NOTHING


@pytest.mark.parametrize("field", ["last_activity_at", "started_by_person_at", "ready_at"])
def test_idle_counts_from_the_latest_sign_of_use(build: Any, field: str) -> None:
    changes = {
        "last_activity_at": build.minutes_ago(500),
        "started_by_person_at": build.minutes_ago(500),
        "ready_at": build.minutes_ago(500),
    }
    policy = build.policy(QUICK)
    assert build.desk(policy, **changes).action is ActionKind.STOP
    changes[field] = build.minutes_ago(29)
    assert build.desk(policy, **changes).action is ActionKind.NOTHING


def test_a_busy_gpu_is_use(build: Any) -> None:
    gpu = build.offer(gpus=1, model="L4")
    busy = idle(build, 300, offer=gpu, gpu_percent=5.0)
    assert (busy.action, busy.acts_at) == (ActionKind.NOTHING, None)
    assert "gpu use is 5%, not below 5%" in told(busy)
    assert idle(build, 300, offer=gpu, gpu_percent=4.9).action is ActionKind.WARN


@pytest.mark.parametrize("stale", [False, True])
def test_unknown_load_is_neither_idle_at_once_nor_busy_for_ever(build: Any, stale: bool) -> None:
    machine: dict[str, Any] = {"offer": build.offer(gpus=1, model="L4"), "gpu_percent": None}
    if stale:
        machine |= {"gpu_percent": 100.0, "agent_seen_at": build.minutes_ago(6)}
    assert idle(build, 45, **machine).action is ActionKind.NOTHING
    assert idle(build, 51, **machine).action is ActionKind.WARN
    stop = idle(build, 61, warned_at=build.minutes_ago(10), **machine)
    assert stop.action is ActionKind.STOP
    assert "gpu use is unknown" in told(stop)


def test_a_machine_without_a_gpu_has_none_that_is_busy_or_unknown(build: Any) -> None:
    assert idle(build, 31, warned_at=build.minutes_ago(11)).action is ActionKind.STOP


@pytest.mark.parametrize("state", [InstanceState.STOPPED, InstanceState.TERMINATED])
def test_what_idled_stays_off_until_its_person_returns(build: Any, state: InstanceState) -> None:
    away = {"state": state, "waiting_since": build.minutes_ago(20), "ready_at": None}
    off = idle(build, 90, **away)
    assert (off.action, ranks(off)[0]) == (ActionKind.NOTHING, Rank.IDLE)
    back = idle(build, 90, started_by_person_at=NOON, **away)
    assert back.action in {ActionKind.START, ActionKind.LAUNCH}


def test_waiting_for_a_machine_is_not_idling(build: Any) -> None:
    started = build.minutes_ago(300)
    workstation = build.workstation(started_by_person_at=started, waiting_since=started)
    decision = build.decision("ws-ana", build.policy(QUICK), workstations=(workstation,))
    assert decision.action is ActionKind.LAUNCH


def test_the_next_opening_brings_it_back_once(build: Any) -> None:
    """Stopped overnight, it starts in the morning and idles again unless it is used."""
    policy = build.policy(f"{HOURS}\n{QUICK}")
    used = datetime(2026, 3, 2, 17, 50, tzinfo=UTC)
    opens = datetime(2026, 3, 3, 7, 0, tzinfo=UTC)
    day: dict[str, Any] = {"last_activity_at": used, "ready_at": used}
    asleep = {"state": InstanceState.STOPPED, **day}
    assert build.desk(policy, at=opens - timedelta(minutes=1), **asleep).action.value == "nothing"
    assert build.desk(policy, at=opens, **asleep).action is ActionKind.START
    later = opens + timedelta(minutes=31)
    assert build.desk(policy, at=later, **day).action is ActionKind.STOP
    assert build.desk(policy, at=later, **asleep).action is ActionKind.NOTHING


# Time to live


def test_ttl_is_announced_and_counts_from_the_persons_start(build: Any) -> None:
    policy = build.policy("allow: {ttl: 8h}")
    for minutes, warned, action in (
        (449, None, ActionKind.NOTHING),
        (451, None, ActionKind.WARN),
        (481, 30, ActionKind.STOP),
    ):
        decision = build.desk(
            policy,
            started_by_person_at=build.minutes_ago(minutes),
            ready_at=build.minutes_ago(10),
            warned_at=build.minutes_ago(warned) if warned else None,
        )
        assert decision.action is action
    asleep = build.desk(
        policy, state=InstanceState.STOPPED, started_by_person_at=build.minutes_ago(481)
    )
    assert (asleep.action, ranks(asleep)) == (ActionKind.NOTHING, [Rank.TTL])


# Holds


def test_a_hold_outranks_hours_idle_and_a_forecast_but_not_spent_money(build: Any) -> None:
    hold = Hold("keep-running", None, "ana")
    soft = "budget: {steps: [{forecast_reaches: 100%, do: [stop]}]}"
    policies = [build.policy(b, name=n) for n, b in (("a", HOURS), ("b", QUICK), ("c", soft))]
    world: dict[str, Any] = {"at": EVENING, "last_activity_at": build.minutes_ago(300)}
    over = build.budget(forecast="2000")
    kept = build.desk(*policies, hold=hold, budgets=(over,), **world)
    assert (kept.action, ranks(kept)[0]) == (ActionKind.NOTHING, Rank.HOLD)
    assert {item.what for item in kept.instead_of} >= {"stop"}
    hard = build.policy("budget: {steps: [{spend_reaches: 100%, do: [stop]}]}", name="d")
    spent = build.desk(hard, hold=hold, budgets=(build.budget(spent="1000"),), **world)
    assert (spent.action, ranks(spent)) == (ActionKind.STOP, [Rank.HARD_BUDGET])


def test_a_hold_ends(build: Any) -> None:
    policy = build.policy(HOURS)
    for minutes, action in ((0, ActionKind.STOP), (1, ActionKind.NOTHING)):
        hold = Hold("keep-running", EVENING + timedelta(minutes=minutes), "ana")
        assert build.desk(policy, at=EVENING, hold=hold).action is action


def test_a_hold_starts_what_the_hours_keep_off(build: Any) -> None:
    hold = Hold("keep-running", None, "ana")
    policy = build.policy(HOURS)
    asleep = build.desk(policy, at=EVENING, hold=hold, state=InstanceState.STOPPED)
    assert asleep.action is ActionKind.START
    ended = build.desk(policy, at=EVENING, hold=hold, state=InstanceState.TERMINATED)
    assert ended.action is ActionKind.LAUNCH


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (InstanceState.READY, ActionKind.STOP),
        (InstanceState.STOPPED, ActionKind.NOTHING),
        (InstanceState.TERMINATED, ActionKind.NOTHING),
    ],
)
def test_kept_stopped(build: Any, state: InstanceState, action: ActionKind) -> None:
    decision = build.desk(hold=Hold("keep-stopped", None, "lead"), state=state)
    assert (decision.action, ranks(decision)[0]) == (action, Rank.HOLD)


# Budget, interruptions, limits


@pytest.mark.parametrize(
    ("step", "offer", "state", "action"),
    [
        ("no_new", {}, InstanceState.READY, ActionKind.NOTHING),
        ("no_new", {}, InstanceState.STOPPED, ActionKind.NOTHING),
        ("no_new", {}, InstanceState.TERMINATED, ActionKind.NOTHING),
        ("stop", {}, InstanceState.READY, ActionKind.STOP),
        ("stop", {}, InstanceState.STOPPED, ActionKind.NOTHING),
        ("stop", {}, InstanceState.TERMINATED, ActionKind.NOTHING),
        ("stop", {"price": "0"}, InstanceState.READY, ActionKind.NOTHING),
        ("stop", {"price": "0"}, InstanceState.STOPPED, ActionKind.START),
        ("stop", {"price": "0"}, InstanceState.TERMINATED, ActionKind.LAUNCH),
        ("spot_only", {}, InstanceState.TERMINATED, ActionKind.NOTHING),
        ("spot_only", {}, InstanceState.STOPPED, ActionKind.START),
        ("notify", {}, InstanceState.TERMINATED, ActionKind.LAUNCH),
    ],
)
def test_budget_steps(
    build: Any, step: str, offer: dict[str, Any], state: InstanceState, action: ActionKind
) -> None:
    policy = build.policy(f"budget: {{steps: [{{spend_reaches: 90%, do: [{step}]}}]}}")
    bought = build.offer(**offer)
    decision = build.desk(
        policy, state=state, offer=bought, offers=(bought,), budgets=(build.budget("900"),)
    )
    assert decision.action is action
    below = build.desk(policy, offer=bought, budgets=(build.budget("899.99"),))
    assert below.action is ActionKind.NOTHING


def test_the_label_keep_is_excepted(build: Any) -> None:
    body = "budget: {steps: [{spend_reaches: 100%, do: [stop], except: {label: keep}}]}"
    for labels, action in (((), ActionKind.STOP), ((("keep", ""),), ActionKind.NOTHING)):
        decision = build.desk(build.policy(body), labels=labels, budgets=(build.budget("1000"),))
        assert decision.action is action


def test_an_interruption_is_told_and_waited_for(build: Any) -> None:
    deadline = NOON + timedelta(minutes=2)
    for change in (
        {"conditions": frozenset({Condition.INTERRUPTING})},
        {"notice_deadline": deadline},
    ):
        decision = build.desk(build.policy(QUICK), **change)
        assert (decision.action, decision.instance_id) == (ActionKind.NOTIFY, None)
        assert "another follows" in told(decision)


def test_nothing_fits_and_every_offer_has_its_reason(build: Any) -> None:
    policy = build.policy("allow: {regions: [eu-*]}")
    decision = build.decision("ws-ana", policy, workstations=(build.workstation(),))
    assert decision.action is ActionKind.NOTHING
    assert "none of 2 offers can be bought: 2 by allow.regions (p.yaml:3)" in told(decision)
    assert {item.what for item in decision.instead_of} == {
        "launch",
        "aws/us-east-1/us-east-1a/m5.large/on-demand",
        "aws/us-east-1/us-east-1a/m5.large/spot",
    }


def test_no_offers_at_all(build: Any) -> None:
    decision = build.decision("ws-ana", workstations=(build.workstation(),), offers=())
    assert decision.action is ActionKind.NOTHING
    assert "no offers at all" in told(decision)


def test_cooled_offers_wait_and_others_are_tried(build: Any) -> None:
    other = build.offer(provider="gce", price="9")
    for scope, left in (("aws", 1), ("aws/us-east-1", 1), ("aws/us", 3), (build.spot().id, 2)):
        cooldown = Cooldown(scope, NOON + timedelta(minutes=5), "no capacity")
        decision = build.decision(
            "ws-ana",
            workstations=(build.workstation(),),
            offers=(build.offer(), build.spot(), other),
            cooldowns=(cooldown,),
        )
        assert len(decision.offers) == left
        over = replace(cooldown, until=NOON)
        again = build.decision("ws-ana", workstations=(build.workstation(),), cooldowns=(over,))
        assert len(again.offers) == 2


def test_a_person_has_no_more_machines_than_allowed_within_one_plan(build: Any) -> None:
    policy = build.policy("allow: {instances_per_user: 2}")
    desks = [build.workstation(id=f"ws-{n}", waiting_since=build.minutes_ago(n)) for n in range(4)]
    bob = build.workstation(id="ws-bob", user="bob")
    plan = build.plan(policy, workstations=(*desks, bob))
    launched = [d.target_id for d in plan.decisions if d.action is ActionKind.LAUNCH]
    assert launched == ["ws-2", "ws-3", "ws-bob"]  # those who wait longest


def test_running_machines_take_seats_and_stopped_ones_do_not(build: Any) -> None:
    policy = build.policy("allow: {instances_per_user: 1}")
    first = build.workstation(id="ws-1", instance_id="i-1")
    second = build.workstation(id="ws-2")
    for state, action in (
        (InstanceState.READY, ActionKind.NOTHING),
        (InstanceState.TERMINATING, ActionKind.LAUNCH),
    ):
        decision = build.decision(
            "ws-2",
            policy,
            workstations=(first, second),
            instances=(build.instance(first, state=state),),
        )
        assert decision.action is action


def test_a_limit_on_one_provider_leaves_the_others(build: Any) -> None:
    policy = build.policy("applies_to: {provider: aws}\nallow: {instances_per_user: 1}")
    first = build.workstation(id="ws-1", instance_id="i-1")
    decision = build.decision(
        "ws-2",
        policy,
        workstations=(first, build.workstation(id="ws-2")),
        instances=(build.instance(first),),
        offers=(build.offer(), build.offer(provider="gce")),
    )
    assert [offer.provider for offer in decision.offers] == ["gce"]


def test_hours_of_one_provider_leave_the_others(build: Any) -> None:
    policy = build.policy(f"applies_to: {{provider: aws}}\n{HOURS}")
    decision = build.decision(
        "ws-ana",
        policy,
        now=EVENING,
        workstations=(build.workstation(),),
        offers=(build.offer(), build.offer(provider="gce")),
    )
    assert [offer.provider for offer in decision.offers] == ["gce"]


def test_a_preference_for_spot_waits_before_it_falls_back(build: Any) -> None:
    policy = build.policy(
        "capacity: {prefer: spot, fall_back_to: on_demand, fall_back_when: {no_spot_for: 10m}}"
    )
    cooled = (Cooldown(build.spot().id, NOON + timedelta(hours=1), "no capacity"),)
    for minutes, modes in ((9, []), (10, [PurchaseMode.ON_DEMAND])):
        workstation = build.workstation(waiting_since=build.minutes_ago(minutes))
        decision = build.decision("ws-ana", policy, workstations=(workstation,), cooldowns=cooled)
        assert [offer.mode for offer in decision.offers] == modes
