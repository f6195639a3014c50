from __future__ import annotations

from typing import Any

import pytest

from policies.loading import check_policies
from policies.problems import Severity


def found(build: Any, *bodies: str) -> list[str]:
    names = "abcdef"
    policies = [
        build.policy(body, name=names[i], file=f"{names[i]}.yaml") for i, body in enumerate(bodies)
    ]
    return [str(problem) for problem in check_policies(policies)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("allow: {providers: [aws]}", "allow: {providers: [gce]}"),
        ("allow: {regions: [us-*]}", "allow: {regions: [eu-*, ap-1]}"),
        ("allow: {cpus: 1..4}", "allow: {cpus: 8+}"),
        ("allow: {memory: 4}", "allow: {memory: 8..16}"),
        ("allow: {purchase: [spot]}", "allow: {purchase: [on_demand]}"),
        ("allow: {gpu: {models: [L4]}}", "allow: {gpu: {models: [T4]}}"),
        ("allow: {gpu: {count: 1..2}}", "allow: {gpu: {count: 4+}}"),
        ("allow: {price_per_hour: up to 1 USD}", "allow: {price_per_hour: up to 1 EUR}"),
    ],
)
def test_an_empty_intersection_names_both_lines(build: Any, one: str, two: str) -> None:
    (problem,) = found(build, one, two)
    assert problem.startswith("a.yaml:3: error: ")
    assert "b.yaml:3 (b)" in problem


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("allow: {regions: [us-*]}", "allow: {regions: ['*-east-1']}"),
        ("allow: {providers: [AWS]}", "allow: {providers: [aws, gce]}"),
        ("allow: {cpus: 1..4}", "allow: {cpus: 4+}"),
        ("allow: {cpus: 1..4}", "allow: {memory: 8+}"),
        ("applies_to: {team: x}\nallow: {cpus: 1}", "applies_to: {team: y}\nallow: {cpus: 2}"),
        (
            "applies_to: {kind: job}\nallow: {cpus: 1}",
            "applies_to: {kind: workstation}\nallow: {cpus: 2}",
        ),
        (
            "applies_to: {provider: aws}\nallow: {cpus: 1}",
            "applies_to: {provider: gce}\nallow: {cpus: 2}",
        ),
    ],
)
def test_policies_that_leave_room_or_never_meet_are_fine(build: Any, one: str, two: str) -> None:
    assert found(build, one, two) == []


def test_different_labels_may_be_on_the_same_target(build: Any) -> None:
    one = "applies_to: {label: a}\nallow: {cpus: 1}"
    assert len(found(build, one, one.replace("label: a", "label: b").replace("1}", "2}"))) == 1


@pytest.mark.parametrize(
    ("body", "line", "severity", "words"),
    [
        ("allow: {instances_per_user: 0}", 3, "error", "allows nothing"),
        ("applies_to: {provider: aws}\nallow:\n  providers: [gce]", 5, "error", "allows nothing"),
        ("rightsize: {look_back: 7d}", 3, "warning", "rightsize is not enforced"),
        ("disruption: {at_most: 5%}", 3, "warning", "disruption is not enforced"),
        ("capacity: {choose: [least_interrupted]}", 3, "warning", "not enforced"),
        ("hours:\n  open: [08:00-09:00]\n  outside: allow", 5, "warning", "never apply"),
        ("idle: {when: {cpu_below: 5%}, for: 1h}", 3, "warning", "always counts as use"),
        ("applies_to: {kind: job}\nallow: {ttl: 1h}", 4, "warning", "never apply to jobs"),
        ("allow: {gpu: {models: [L4], count: 0}}", 3, "warning", "can never apply"),
        ("capacity: {fall_back_to: spot}", 3, "warning", "without prefer"),
        ("capacity: {prefer: spot, fall_back_to: spot}", 3, "warning", "preferred already"),
        (
            "capacity: {prefer: spot, fall_back_when: {no_spot_for: 5m}}",
            3,
            "warning",
            "fall_back_when can never apply",
        ),
        (
            "allow: {purchase: [on_demand]}\ncapacity:\n  prefer: spot",
            5,
            "warning",
            "not in allow.purchase (a.yaml:3)",
        ),
    ],
)
def test_rules_that_do_not_do_what_they_say(
    build: Any, body: str, line: int, severity: str, words: str
) -> None:
    (problem,) = found(build, body)
    assert problem.startswith(f"a.yaml:{line}: {severity}: ")
    assert words in problem


def test_two_policies_of_one_name(build: Any) -> None:
    (problem,) = check_policies([build.policy(file="a.yaml"), build.policy(file="b.yaml")])
    assert (problem.file, problem.line, problem.severity) == ("b.yaml", 1, Severity.ERROR)


def test_two_preferences_are_told_apart(build: Any) -> None:
    (problem,) = found(build, "capacity: {prefer: spot}", "capacity: {prefer: on_demand}")
    assert "a is followed" in problem
    assert "warning" in problem


def test_a_sound_policy_has_no_problems(build: Any) -> None:
    assert found(build, "allow: {providers: [aws]}\ncapacity: {prefer: spot}") == []
