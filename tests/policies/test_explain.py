from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from policies.explain import explain, render_plan, render_problems
from policies.loading import check_policies
from policies.world import Hold, InstanceState, JobState

EVENING = datetime(2026, 3, 2, 18, 4, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
BODY = """\
hours: {timezone: Europe/Berlin, open: [mon-fri 08:00-19:00]}
idle: {when: {no_input: true}, for: 30m}
"""


def test_a_stop_is_told_with_its_line_and_what_would_have_come(build: Any) -> None:
    used = datetime(2026, 3, 2, 17, 40, tzinfo=UTC)
    decision = build.desk(
        build.policy(BODY, file="research-gpu.yaml"),
        at=EVENING,
        last_activity_at=used,
        team_timezones=(("research", "Europe/Berlin"),),
    )
    assert explain(decision, EVENING, BERLIN, {"ws-ana": "ana's desk"}) == (
        "stopped ana's desk at 19:04 because hours.open ended 19:00 Europe/Berlin, "
        "next 2026-03-03 08:00 (research-gpu.yaml:3); "
        "stop: idle since 18:40; would stop at 19:10 (research-gpu.yaml:4); "
        "nothing: its person wants it on, and it is ready; hold: none"
    )


def test_a_hold_is_told(build: Any) -> None:
    policy = build.policy(BODY)
    kept = build.desk(policy, at=EVENING, hold=Hold("keep-running", None, "ana"))
    assert explain(kept).startswith(
        "leave ws-ana as it is because ana holds it at keep-running; and its person wants it on"
    )
    assert "stop: hours.open ended" in explain(kept)


def test_a_launch_is_told_with_its_first_offers(build: Any) -> None:
    decision = build.decision("job-1", jobs=(build.job(),))
    assert explain(decision) == (
        "launch a machine for job-1 because it waits for a machine; to buy: "
        "aws/us-east-1/us-east-1a/m5.large/spot at 0.30 USD an hour, "
        "then aws/us-east-1/us-east-1a/m5.large/on-demand at 1.00 USD an hour"
    )


def test_a_plan_is_a_line_for_each_thing_to_do(build: Any) -> None:
    job = build.job(state=JobState.RUNNING, attempt=1)
    orphan = build.instance(state=InstanceState.READY)
    plan = build.plan(jobs=(job,), instances=(orphan,))
    assert render_plan(plan) == (
        "instance terminate i-1 because it belongs to nobody\n1 left as they are"
    )
    assert "job leave job-1 as it is because it is running" in render_plan(plan, everything=True)
    assert render_plan(build.plan()) == "nothing to decide"


def test_problems_end_with_their_count(build: Any) -> None:
    found = check_policies([build.policy("rightsize: {}\ndisruption: {}")])
    lines = render_problems(found).splitlines()
    assert lines[0].startswith("p.yaml:3: warning: rightsize is not enforced by this version")
    assert lines[-1] == "0 errors, 2 warnings"
    assert render_problems([]) == "no problems"
