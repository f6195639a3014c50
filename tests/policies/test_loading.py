from __future__ import annotations

from contextlib import suppress
from datetime import date
from decimal import Decimal
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.loading import TEXT_LIMIT, load_policy
from policies.problems import PolicyError
from policies.quantities import Duration, Money, Percent, Range, Window
from policies.world import PurchaseMode

EVERYTHING = """\
policy: research-gpu
version: 1
applies_to: {team: research}

allow:
  providers: [aws, gce, local]
  regions: [us-east-1, us-west-2, eu-*]
  gpu: {models: [L4, A10G, A100-40GB], count: 1..4}
  price_per_hour: up to 4.00 USD
  instances_per_user: 2
  ttl: 72h

capacity:
  prefer: spot
  fall_back_to: on_demand
  fall_back_when: {no_spot_for: 10m}   # a job's own deadline is kept by the spot strategy
  choose: [cheapest, least_interrupted]

hours:
  timezone: Europe/Berlin
  open: [mon-fri 08:00-19:00]
  closed_on: [2026-12-25]
  outside: stop                       # stop | terminate | allow

idle:
  when: {no_input: true, gpu_below: 5%}
  for: 30m
  warn: 15m
  then: stop

rightsize:
  look_back: 7d
  up:   {when: {gpu_memory_p95_above: 90%}, for: 2h}
  down: {when: {gpu_p95_below: 30%, memory_p95_below: 40%}, for: 24h, saves_at_least: 20%}
  apply: at_next_stop                 # at_next_stop | now | suggest

disruption:
  at_most: 10%
  never: [mon-fri 09:00-17:00]

budget:
  # the amount lives in the team's budget; a policy says what happens at each step
  steps:
    - {forecast_reaches: 80%,  do: [notify, spot_only]}
    - {forecast_reaches: 100%, do: [notify, no_new]}
    - {spend_reaches: 100%,    do: [notify, stop], except: {label: keep}}
"""


def problems(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(PolicyError) as caught:
        load_policy(text, "bad.yaml")
    assert all(problem.file == "bad.yaml" for problem in caught.value.problems)
    return [(p.line, p.message, p.hint) for p in caught.value.problems]


def test_every_section_is_read_into_quantities() -> None:
    policy = load_policy(EVERYTHING, "research-gpu.yaml")
    assert policy.name == "research-gpu"
    assert policy.applies_to.team == ("research",)
    assert policy.allow is not None
    assert policy.allow.regions == ("us-east-1", "us-west-2", "eu-*")
    assert policy.allow.price_per_hour == Money(Decimal("4.00"), "USD")
    assert policy.allow.gpu is not None
    assert policy.allow.gpu.count == Range(Decimal(1), Decimal(4))
    assert policy.capacity is not None
    assert policy.capacity.prefer is PurchaseMode.SPOT
    assert policy.capacity.fall_back_to is PurchaseMode.ON_DEMAND
    assert policy.hours is not None
    assert policy.hours.open == (Window.parse("mon-fri 08:00-19:00"),)
    assert policy.hours.closed_on == (date(2026, 12, 25),)
    assert policy.idle is not None
    assert policy.idle.for_ == Duration(1800)
    assert policy.idle.when.gpu_below == Percent(Decimal(5))
    assert policy.budget is not None
    assert [step.do for step in policy.budget.steps][2] == ("notify", "stop")
    assert policy.budget.steps[2].except_ is not None
    assert policy.rightsize is not None
    assert policy.disruption is not None


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("allow.regions", 7),
        ("allow.gpu.models", 8),
        ("allow.price_per_hour", 9),
        ("hours.open", 21),
        ("hours.open[0]", 21),
        ("idle.for", 27),
        ("budget.steps[2].spend_reaches", 46),
        ("budget.steps[9].do", 43),
        ("nowhere.at.all", 1),
    ],
)
def test_a_policy_knows_its_lines(path: str, line: int) -> None:
    policy = load_policy(EVERYTHING, "research-gpu.yaml")
    assert policy.where(path) == f"research-gpu.yaml:{line}"


def test_words_that_yaml_would_convert_stay_words() -> None:
    policy = load_policy(
        "policy: 010\nversion: 1\nallow:\n  regions: [NO, on, 1e3]\n"
        "hours:\n  open: [19:00-20:00]\n",
        "p.yaml",
    )
    assert policy.name == "010"
    assert policy.allow is not None
    assert policy.allow.regions == ("NO", "on", "1e3")
    assert policy.hours is not None
    assert policy.hours.open[0].start == 19 * 60


HEAD = "policy: x\nversion: 1\n"


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("", 1, "no policy", "policy: NAME"),
        ("# only a comment\n", 1, "no policy", ""),
        ("- a\n- b\n", 1, "no policy", ""),
        ("version: 1\n", 1, "policy is missing", ""),
        ("policy: x\n", 1, "version is missing", ""),
        ("policy: x\nversion: 2\n", 2, "'2' is not known here", "write 1"),
        ("policy: x\nversion: 1\nallow: [\n", 4, "no YAML", ""),
        ("policy: x\n\tversion: 1\n", 2, "no YAML", ""),
        ("policy: \x07\n", 1, "cannot be part of YAML", ""),
        (HEAD + "---\npolicy: y\n", 3, "second document", ""),
        (HEAD + "allow: &a {}\n", 3, "anchors", ""),
        (HEAD + "idle: !!python/name:os.system x\n", 3, "tag", ""),
        (HEAD + "? [a, b]\n: c\n", 3, "single word", ""),
        (HEAD + "version: 1\n", 3, "version is written twice, first in line 2", "keep one"),
        (HEAD + "allow:\n  cpus: 4\n  cpus: 8\n", 5, "allow.cpus is written twice", ""),
        (HEAD + "allow:\n", 3, "allow must be a section", ""),
        (HEAD + "allowed: {}\n", 3, "unknown word 'allowed'", "did you mean allow?"),
        (HEAD + "allow:\n  regoins: [a]\n", 4, "unknown word 'regoins'", "regions"),
        (HEAD + "allow:\n  gpu:\n    modles: [L4]\n", 5, "unknown word 'modles'", "models"),
        (HEAD + "budget:\n  steps:\n  - {spend_reachs: 1%, do: [stop]}\n", 5, "spend_", "reaches"),
        (HEAD + "allow:\n  zzz: 1\n", 4, "unknown word 'zzz'", "known are providers"),
        (HEAD + "allow:\n  providers: aws\n", 4, "expected a list", "[aws]"),
        (HEAD + "allow:\n  providers: []\n", 4, "list is empty", "remove the key"),
        (HEAD + "allow:\n  regions:\n  - a\n  - 'b c'\n", 6, "'b c' is no name", ""),
        (HEAD + "allow:\n  price_per_hour: up to 4.00\n", 4, "no", "currency"),
        (HEAD + "allow:\n  price_per_hour: 4.00 USD\n", 4, "price limit", "up to"),
        (HEAD + "allow:\n  instances_per_user: two\n", 4, "whole number", ""),
        (HEAD + "allow:\n  purchase: [spto]\n", 4, "purchase mode", "did you mean spot?"),
        (HEAD + "capacity:\n  choose: [random]\n", 4, "'random'", "cheapest"),
        (HEAD + "hours:\n  timezone: Europe/Berln\n  open: [08:00-09:00]\n", 4, "IANA", "Berlin"),
        (HEAD + "hours:\n  timezone: ../etc\n  open: [08:00-09:00]\n", 4, "IANA", ""),
        (HEAD + "hours:\n  outside: stop\n", 3, "hours.open is missing", ""),
        (HEAD + "hours:\n  open: [08:00-09:00]\n  closed_on: [25.12.2026]\n", 5, "no date", ""),
        (HEAD + "hours:\n  open: [08:00-09:00]\n  closed_on: [2026-02-30]\n", 5, "no date", ""),
        (HEAD + "idle:\n  when: {no_input: yes}\n  for: 5m\n", 4, "neither true nor false", ""),
        (HEAD + "idle:\n  when: {}\n  for: 5m\n  warn: 5m\n", 3, "must be shorter", ""),
        (HEAD + "idle:\n  when: {gpu_below: 5}\n  for: 5m\n", 4, "percentage", "80%"),
        (HEAD + "budget:\n  steps:\n    - {do: [stop]}\n", 5, "needs one of", ""),
        (HEAD + "budget:\n  steps:\n    - {spend_reaches: 1%, do: [sotp]}\n", 5, "'sotp'", "stop"),
        (HEAD + "applies_to: {kind: desk}\n", 3, "'desk'", "workstation"),
        (HEAD + "applies_to: {label: 'a b'}\n", 3, "no label", "key=value"),
        ("[" * 3000, 1, "nested deeper", ""),
        (HEAD + "#" * TEXT_LIMIT, 1, "characters", "split"),
    ],
)
def test_bad_text_is_refused_at_its_line(text: str, line: int, message: str, hint: str) -> None:
    found = problems(text)
    assert [entry for entry in found if entry[0] == line and message in entry[1]], found
    assert any(hint in entry[2] for entry in found), found


def test_all_problems_are_found_at_once_and_in_order() -> None:
    text = EVERYTHING.replace("30m", "30x").replace("regions:", "regoins:").replace("Berlin", "B")
    assert [line for line, _, _ in problems(text + "idle: {}\n")] == [7, 20, 27, 47]


def test_a_yaml_bomb_is_refused_before_it_is_built() -> None:
    rows = ["a: &a [x, x, x]"] + [f"{n}: &{n} [*a, *a, *a]" for n in "bcdefgh"]
    assert len(problems("\n".join(rows))) > 7


def test_a_merge_key_is_an_unknown_word() -> None:
    assert problems(HEAD + "<<: {a: b}\n")[0][1] == "unknown word '<<' in a policy"


@given(st.text(max_size=200))
def test_no_text_does_anything_but_load_or_name_its_problems(text: str) -> None:
    with suppress(PolicyError):
        assert load_policy(text, "any.yaml").name


def test_problems_read_as_file_line_message_and_hint() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(dedent(HEAD + "idel: {}\n"), "x.yaml")
    assert str(caught.value) == (
        "x.yaml:3: error: unknown word 'idel' in a policy (did you mean idle?)"
    )
