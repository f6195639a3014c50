"""The field types of the wire: names, references, text, numbers, money, instants.

Pydantic only at this border. What people send is strict and bounded (`Request`); what the machines'
agents send may have fields from another version (`AgentMessage`); what goes out is read off the
services' dataclasses (`View`).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

T = TypeVar("T")
MAX_JSON_DEPTH = 12
MAX_JSON_VALUES = 2000
_MEASURED_DEPTH = 32
"""As deep as the agent sends."""
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_MONEY = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"
_MEASURED_DEPTH = 40
_SIGNED = r"^-?[0-9]+(\.[0-9]+)?$"


class Request(BaseModel):
    """What a person sends: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentMessage(BaseModel):
    """What a machine's agent sends: unknown fields are another version's and are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class View(BaseModel):
    """What is shown: the same fields as the service's dataclass."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class PageOut(View, Generic[T]):
    """A part of a list; `next` is the cursor of the part after it, null at the end."""

    items: list[T]
    next: str | None


class Paging(Request):
    """Which part of a list."""

    limit: int = Field(default=50, ge=1, le=200, description="How many at most.")
    cursor: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="`next` of the part before; without it the list begins.",
    )


def _instant(value: object) -> datetime:
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            moment = datetime.fromisoformat(_microseconds(value.upper())).astimezone(UTC)
        except (ValueError, OverflowError):
            moment = None
        if moment is not None and 2000 <= moment.year < 2200:
            return moment
    raise ValueError("expected an RFC 3339 time with a zone, such as 2026-11-02T18:00:00Z")


def _microseconds(text: str) -> str:
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def _money(value: object) -> Decimal:
    if isinstance(value, str) and re.fullmatch(_MONEY, value, re.ASCII):
        return Decimal(value)
    raise ValueError('expected an amount as a decimal string, such as "12.50"')


def _plain(amount: Decimal) -> str:
    return format(amount.copy_abs() if amount.is_zero() else amount, "f")  # never "-0.00"


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _small_json(value: object) -> object:
    """Refuse what no database or log can hold: endless numbers, deep nests, broken text."""
    left = MAX_JSON_VALUES

    def check(each: object, depth: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"more than {MAX_JSON_VALUES} values")
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"nested deeper than {MAX_JSON_DEPTH}")
        match each:
            case float():
                _finite(each)
            case int() if abs(each) >= 2**63:
                raise ValueError("a number of more than 64 bits")
            case str():
                _text(each)
            case dict():
                for key, inner in each.items():
                    _text(key)
                    check(inner, depth + 1)
            case list():
                for inner in each:
                    check(inner, depth + 1)

    check(value, 0)
    return value


def _text(value: str) -> str:
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("text must be Unicode without NUL")
    return value


def without_nul(text: str) -> str:
    """What a program wrote, as PostgreSQL can keep it."""
    return text.replace("\x00", "\ufffd")


def _measured(value: object, depth: int = 0) -> object:
    """An agent's records: a loss that became NaN is kept as null, not refused."""
    if depth > _MEASURED_DEPTH:
        raise ValueError(f"nested more than {_MEASURED_DEPTH} deep")
    match value:
        case float() if not math.isfinite(value):
            return None
        case int() if abs(value) >= 2**63:
            return None
        case dict():
            return {str(_measured(k)): _measured(inner, depth + 1) for k, inner in value.items()}
        case list():
            return [_measured(inner, depth + 1) for inner in value]
        case str():
            return without_nul(value).encode("utf-8", "replace").decode()
    return value


NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
REF_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN), Field(examples=["vision"])]
Ref = Annotated[str, StringConstraints(pattern=REF_PATTERN)]
"""An id, or a name within one's own team."""
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.*/-]{0,62}$")]
"""A provider, a region (a glob), a GPU model."""
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$"), Field(examples=["USD"])]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/-]{1,63}$")]
Labels = Annotated[dict[Label, Annotated[Text, Field(max_length=255)]], Field(max_length=32)]

Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]

Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    Field(examples=["2026-11-02T18:00:00Z"]),
]
MoneyIn = Annotated[
    Decimal,
    BeforeValidator(_money),
    WithJsonSchema({"type": "string", "pattern": _MONEY, "examples": ["12.50"]}),
]
Money = Annotated[
    Decimal,
    PlainSerializer(_plain, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _SIGNED, "examples": ["12.50"]}),
]
SmallJson = Annotated[Any, AfterValidator(_small_json)]
Measured = Annotated[dict[str, Any], BeforeValidator(_measured)]
