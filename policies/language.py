"""The policy language: one pydantic model a section, each field optional where it can be.

Only the shape is here. Reading YAML is `loading`, contradictions are `checking`, and what a
section does is in the rule of its name. No expressions, operators or templates: the words are few
so that a team lead can read any policy aloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from policies.plan import Rank, Reason
from policies.problems import BadTextError, nearest_line
from policies.quantities import Duration, Money, Percent, Range, Window
from policies.spelling import (
    nearest,
    read_count,
    read_date,
    read_flag,
    read_glob,
    read_label,
    read_list,
    read_mode,
    read_one_or_many,
    read_word,
)
from policies.world import PurchaseMode


def read_zone(text: object) -> str:
    """An IANA zone that exists on this machine or in the tzdata package."""
    name = read_word(text)
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = nearest(name, available_timezones()) or "write Europe/Berlin, America/New_York, UTC"
        raise BadTextError(f"{name!r} is no IANA time zone", hint) from None
    return name


DurationText = Annotated[Duration, BeforeValidator(Duration.parse)]
PercentText = Annotated[Percent, BeforeValidator(Percent.parse)]
PriceText = Annotated[Money, BeforeValidator(Money.parse_up_to)]
RangeText = Annotated[Range, BeforeValidator(Range.parse)]
WindowText = Annotated[Window, BeforeValidator(Window.parse)]
DateText = Annotated[date, BeforeValidator(read_date)]
ZoneText = Annotated[str, BeforeValidator(read_zone)]
WordText = Annotated[str, BeforeValidator(read_word)]
GlobText = Annotated[str, BeforeValidator(read_glob)]
LabelText = Annotated[str, BeforeValidator(read_label)]
ModeText = Annotated[PurchaseMode, BeforeValidator(read_mode)]
CountText = Annotated[int, BeforeValidator(read_count)]
FlagText = Annotated[bool, BeforeValidator(read_flag)]

Words = Annotated[tuple[WordText, ...], BeforeValidator(read_list)]
Globs = Annotated[tuple[GlobText, ...], BeforeValidator(read_list)]
Modes = Annotated[tuple[ModeText, ...], BeforeValidator(read_list)]
Windows = Annotated[tuple[WindowText, ...], BeforeValidator(read_list)]
Dates = Annotated[tuple[DateText, ...], BeforeValidator(read_list)]
SomeWords = Annotated[tuple[WordText, ...], BeforeValidator(read_one_or_many)]
SomeLabels = Annotated[tuple[LabelText, ...], BeforeValidator(read_one_or_many)]
Kind = Literal["workstation", "job"]
SomeKinds = Annotated[tuple[Kind, ...], BeforeValidator(read_one_or_many)]


class Section(BaseModel):
    """What all sections share: unknown words are refused and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Selector(Section):
    """Whom it speaks of: all fields must match, and of a field's words any."""

    team: SomeWords | None = None
    user: SomeWords | None = None
    label: SomeLabels | None = None
    """`key`, or `key=value`."""
    kind: SomeKinds | None = None
    provider: SomeWords | None = None
    """Narrows the policy to machines of these providers."""


class Gpu(Section):
    """Which GPUs a machine may have. It says nothing of machines that have none."""

    models: Words | None = None
    count: RangeText | None = None


class Allow(Section):
    """What may be bought; what several policies allow is intersected."""

    providers: Words | None = None
    regions: Globs | None = None
    gpu: Gpu | None = None
    cpus: RangeText | None = None
    memory: RangeText | None = None
    """GiB."""
    price_per_hour: PriceText | None = None
    purchase: Modes | None = None
    instances_per_user: CountText | None = None
    """Machines that one person may have running at the same time."""
    ttl: DurationText | None = None
    """How long a workstation runs after its person last started it."""


class FallBackWhen(Section):
    no_spot_for: DurationText


class Capacity(Section):
    """How to buy: the preferred mode, and when another will do."""

    prefer: ModeText | None = None
    fall_back_to: ModeText | None = None
    fall_back_when: FallBackWhen | None = None
    choose: Annotated[
        tuple[Literal["cheapest", "least_interrupted"], ...], BeforeValidator(read_list)
    ] = ("cheapest",)


class Hours(Section):
    """When workstations are open; jobs only where `applies_to.kind` names them."""

    timezone: ZoneText | None = None
    open: Windows
    closed_on: Dates = ()
    outside: Literal["stop", "terminate", "allow"] = "stop"


class IdleWhen(Section):
    no_input: FlagText | None = None
    cpu_below: PercentText | None = None
    gpu_below: PercentText | None = None


class Idle(Section):
    """When a running workstation counts as unused, and what then happens."""

    when: IdleWhen
    for_: DurationText = Field(alias="for")
    warn: DurationText | None = None
    """How long before the stop its person is told."""
    then: Literal["stop", "terminate"] = "stop"

    @model_validator(mode="after")
    def _warn_comes_before(self) -> Idle:
        if self.warn is not None and self.warn.seconds >= self.for_.seconds:
            raise BadTextError(
                f"idle.warn ({self.warn}) must be shorter than idle.for ({self.for_})",
                "the warning comes that long before the stop",
            )
        return self


class RightsizeWhen(Section):
    cpu_p95_above: PercentText | None = None
    cpu_p95_below: PercentText | None = None
    memory_p95_above: PercentText | None = None
    memory_p95_below: PercentText | None = None
    gpu_p95_above: PercentText | None = None
    gpu_p95_below: PercentText | None = None
    gpu_memory_p95_above: PercentText | None = None
    gpu_memory_p95_below: PercentText | None = None


class RightsizeStep(Section):
    when: RightsizeWhen
    for_: DurationText = Field(alias="for")
    saves_at_least: PercentText | None = None


class Rightsize(Section):
    """Read, not enforced: `check_policies` says so."""

    look_back: DurationText | None = None
    up: RightsizeStep | None = None
    down: RightsizeStep | None = None
    apply: Literal["at_next_stop", "now", "suggest"] = "at_next_stop"


class Disruption(Section):
    """Read, not enforced: `check_policies` says so."""

    at_most: PercentText | None = None
    never: Windows | None = None


StepAction = Literal["notify", "spot_only", "no_new", "stop"]


class BudgetStep(Section):
    """What happens once the team's spending, or its forecast, reaches a share of its budget."""

    forecast_reaches: PercentText | None = None
    spend_reaches: PercentText | None = None
    do: Annotated[tuple[StepAction, ...], BeforeValidator(read_list)]
    except_: Selector | None = Field(default=None, alias="except")

    @model_validator(mode="after")
    def _one_trigger(self) -> BudgetStep:
        if (self.forecast_reaches is None) == (self.spend_reaches is None):
            raise BadTextError(
                "a budget step needs one of forecast_reaches and spend_reaches",
                "write one step for each",
            )
        return self


class Budget(Section):
    steps: Annotated[tuple[BudgetStep, ...], BeforeValidator(read_list)]


class Policy(Section):
    """One policy file."""

    name: WordText = Field(alias="policy")
    version: Literal["1"]
    applies_to: Selector = Selector()
    allow: Allow | None = None
    capacity: Capacity | None = None
    hours: Hours | None = None
    idle: Idle | None = None
    rightsize: Rightsize | None = None
    disruption: Disruption | None = None
    budget: Budget | None = None

    _file: str = PrivateAttr(default="policy")
    _lines: Mapping[str, int] = PrivateAttr(default_factory=dict)

    def placed(self, file: str, lines: Mapping[str, int]) -> Policy:
        """Remember where each part was written; called once, by the loader."""
        self._file, self._lines = file, lines
        return self

    @property
    def file(self) -> str:
        return self._file

    def line(self, path: str) -> int:
        return nearest_line(self._lines, path)

    def where(self, path: str) -> str:
        return f"{self._file}:{self.line(path)}"

    def reason(
        self,
        rank: Rank,
        rule: str,
        text: str,
        observed: str | None = None,
        threshold: str | None = None,
    ) -> Reason:
        """A reason that names this policy and the line of its rule."""
        return Reason(rank, rule, text, self.name, self.where(rule), observed, threshold)
