"""What is stored comes back equal and is decided alike."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.codec import (
    CodecError,
    plan_from_dict,
    plan_to_dict,
    snapshot_from_dict,
    snapshot_to_dict,
)
from policies.decide import decide
from policies.plan import Plan
from policies.world import Cooldown, Hold, Snapshot

st.register_type_strategy(Decimal, st.decimals(allow_nan=False, allow_infinity=False))
st.register_type_strategy(
    datetime,
    st.datetimes(timezones=st.just(UTC), min_value=datetime(1990, 1, 1)),  # noqa: DTZ001
)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


@settings(max_examples=15, deadline=None)
@given(st.from_type(Snapshot))
def test_any_snapshot_comes_back_equal(snapshot: Snapshot) -> None:
    text = json.dumps(snapshot_to_dict(snapshot), allow_nan=False)
    assert snapshot_from_dict(json.loads(text)) == snapshot


@settings(max_examples=15, deadline=None)
@given(st.from_type(Plan))
def test_any_plan_comes_back_equal(plan: Plan) -> None:
    text = json.dumps(plan_to_dict(plan), allow_nan=False)
    assert plan_from_dict(json.loads(text)) == plan


def world(build: Any) -> Snapshot:
    desk = build.workstation(
        instance_id="i-1",
        labels=(("keep", "yes"),),
        hold=Hold("keep-running", build.now, "ana"),
        last_activity_at=build.minutes_ago(300),
    )
    return build.snapshot(  # type: ignore[no-any-return]
        workstations=(desk, build.workstation(id="ws-2")),
        jobs=(build.job(),),
        instances=(build.instance(desk, cpu_percent=1.5),),
        budgets=(build.budget("950.10", "1200"),),
        cooldowns=(Cooldown("aws/us-east-1", build.now, "no capacity"),),
        team_timezones=(("research", "Europe/Berlin"),),
    )


def test_a_stored_snapshot_is_decided_again_identically(build: Any) -> None:
    policies = [
        build.policy("idle: {when: {no_input: true}, for: 30m, warn: 10m}", name="a"),
        build.policy("budget: {steps: [{spend_reaches: 95%, do: [notify, spot_only]}]}", name="b"),
    ]
    snapshot = world(build)
    stored = json.dumps([snapshot_to_dict(snapshot), plan_to_dict(decide(snapshot, policies))])
    then, plan = json.loads(stored)
    assert decide(snapshot_from_dict(then), policies) == plan_from_dict(plan)


def test_money_keeps_its_digits(build: Any) -> None:
    data = snapshot_to_dict(world(build))
    assert data["snapshot"]["budgets"][0]["spent"] == "950.10"
    assert str(snapshot_from_dict(data).budgets[0].spent) == "950.10"


def test_fields_added_since_take_their_defaults(build: Any) -> None:
    data = snapshot_to_dict(world(build))
    del data["snapshot"]["cooldowns"]
    del data["snapshot"]["workstations"][0]["warned_at"]
    assert snapshot_from_dict(data) == replace(world(build), cooldowns=())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 2, "version 2"),
        (["snapshot"], [], "snapshot: [] is no record"),
        (["snapshot", "news"], 1, "snapshot: unknown news"),
        (["snapshot", "now"], "2026-03-02T12:00:00", "snapshot.now"),
        (["snapshot", "now"], None, "snapshot.now"),
        (["snapshot", "jobs"], {}, "snapshot.jobs"),
        (["snapshot", "jobs", 0, "state"], "asleep", "snapshot.jobs[0].state"),
        (["snapshot", "jobs", 0, "nodes"], True, "snapshot.jobs[0].nodes"),
        (["snapshot", "jobs", 0, "nodes"], "1", "snapshot.jobs[0].nodes"),
        (["snapshot", "budgets", 0, "spent"], 950.1, "snapshot.budgets[0].spent"),
        (["snapshot", "budgets", 0, "spent"], "NaN", "snapshot.budgets[0].spent"),
        (["snapshot", "budgets", 0, "spent"], "much", "snapshot.budgets[0].spent"),
        (["snapshot", "team_timezones", 0], ["research"], "snapshot.team_timezones[0]"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_path(
    build: Any, path: list[Any], value: Any, message: str
) -> None:
    data = snapshot_to_dict(world(build))
    inner: Any = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    with pytest.raises(CodecError) as caught:
        snapshot_from_dict(data)
    assert message in str(caught.value)


def test_what_cannot_be_stored_exactly_is_refused(build: Any) -> None:
    naive = replace(world(build), now=datetime(2026, 3, 2))  # noqa: DTZ001
    with pytest.raises(CodecError, match="without a zone"):
        snapshot_to_dict(naive)
    machine = replace(world(build).instances[0], cpu_percent=float("nan"))
    with pytest.raises(CodecError, match="no number"):
        snapshot_to_dict(replace(world(build), instances=(machine,)))


def test_a_record_of_something_else_is_refused(build: Any) -> None:
    with pytest.raises(CodecError, match="no plan in this record"):
        plan_from_dict(snapshot_to_dict(world(build)))
    del (data := snapshot_to_dict(world(build)))["snapshot"]["id"]
    with pytest.raises(CodecError, match="missing id"):
        snapshot_from_dict(data)
