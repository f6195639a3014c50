"""A JSON object as a frozen dataclass, and nothing that was not asked for.

An unknown key, a wrong type or a value outside its range is an error that names the key and says
what would be right. It imports no torch, and it fills in nothing but the dataclass's own defaults.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from dataclasses import Field, asdict, dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")

RULE = "rule"
COSMETIC = "cosmetic"
"""Metadata of a field that does not decide the result: it may differ when a training is resumed."""


class ConfigError(ValueError):
    """The configuration is wrong; the message names the key and what would be right."""


@dataclass(frozen=True, slots=True)
class Between:
    """A number with both ends included."""

    low: float
    high: float

    def complaint(self, value: Any) -> str | None:
        return None if self.low <= value <= self.high else f"must be {self.low} to {self.high}."


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def complaint(self, value: Any) -> str | None:
        if value in self.words:
            return None
        return f"must be one of {', '.join(self.words)}.{_nearest(value, self.words)}"


def parse(kind: type[T], text: str) -> T:
    """The configuration in `text`. Raises ConfigError."""
    try:
        body = json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ConfigError(f"The configuration is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise ConfigError("The configuration must be a JSON object.")
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in body:
        if name not in known:
            words = tuple(known)
            hint = _nearest(name, words) or f" Known are {', '.join(words)}."
            raise ConfigError(f"Unknown key {name!r}.{hint}")
    return kind(**{name: _checked(known[name], value) for name, value in body.items()})


def fingerprint(recipe: str, config: Any) -> str:
    """SHA-256 of the recipe's name and all of its configuration that decides the result."""
    values = asdict(config)
    deciding = {f.name: values[f.name] for f in fields(config) if not f.metadata.get(COSMETIC)}
    return hashlib.sha256(json.dumps([recipe, deciding], sort_keys=True).encode()).hexdigest()


def _checked(field: Field[Any], value: Any) -> Any:
    if value is None and str(field.type).endswith("| None"):
        return None
    wanted = str(field.type).removesuffix(" | None")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "float" and number:
        value = float(value)
        right = math.isfinite(value)
    else:
        right = type(value).__name__ == wanted
    complaint = None if right else f"must be of type {wanted}."
    rule = field.metadata.get(RULE)
    if complaint is None and rule is not None:
        complaint = rule.complaint(value)
    if complaint is not None:
        raise ConfigError(f"{field.name} is {json.dumps(value)}: it {complaint}")
    return value


def _nearest(word: Any, words: tuple[str, ...]) -> str:
    spellings = {known.lower(): known for known in words}
    near = difflib.get_close_matches(str(word).lower(), spellings, n=1, cutoff=0.5)
    return f" Did you mean {spellings[near[0]]!r}?" if near else ""


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        names = [name for name, _value in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"The key {repeated!r} is given twice.")
    return body


def _no_constant(word: str) -> float:
    raise ConfigError(f"{word} is no number here.")
