"""Snapshots and plans as JSON-able dicts and back, exactly: what is stored can be decided again.

Decimals and times are strings, sets are sorted lists. The reader takes a version it knows, fills
fields that were added since with their defaults, and refuses everything else by its path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from policies.plan import Plan
from policies.world import Snapshot

VERSION = 1
T = TypeVar("T")


class CodecError(ValueError):
    """A value that cannot be stored exactly, or a stored one that cannot be read."""


def snapshot_to_dict(snapshot: Snapshot) -> dict[str, Any]:
    return {"version": VERSION, "snapshot": _dump(snapshot, "snapshot")}


def snapshot_from_dict(data: Mapping[str, Any]) -> Snapshot:
    """Raises CodecError when the data is of another version or shape."""
    return _read(data, "snapshot", Snapshot)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    return {"version": VERSION, "plan": _dump(plan, "plan")}


def plan_from_dict(data: Mapping[str, Any]) -> Plan:
    """Raises CodecError when the data is of another version or shape."""
    return _read(data, "plan", Plan)


def value_to_json(value: Any) -> Any:
    """Any frozen value of dataclasses, tuples, enumerations, times and Decimals."""
    return _dump(value, type(value).__name__)


def value_from_json(data: Any, kind: type[T]) -> T:
    """Raises CodecError when the data is of another shape than `kind`."""
    value: T = _load(data, kind, kind.__name__)
    return value


def _read(data: Mapping[str, Any], key: str, kind: type[T]) -> T:
    if data.get("version") != VERSION:
        found = data.get("version")
        raise CodecError(f"this {key} is of version {found!r}; only {VERSION} can be read")
    if key not in data:
        raise CodecError(f"there is no {key} in this record")
    value: T = _load(data[key], kind, key)
    return value


def _dump(value: Any, path: str) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, datetime):
        return _dump_time(value, path)
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            raise CodecError(f"{path} is {value}, which is no number")
        return value if isinstance(value, float) else str(value)
    if isinstance(value, tuple):
        return [_dump(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, frozenset):
        return sorted(_dump(item, path) for item in value)
    if is_dataclass(value):
        return {f.name: _dump(getattr(value, f.name), f"{path}.{f.name}") for f in fields(value)}
    raise CodecError(f"{path} is a {type(value).__name__}, which is not stored")


def _dump_time(value: datetime, path: str) -> str:
    if value.tzinfo is None:
        raise CodecError(f"{path} is a time without a zone; times are aware and in UTC")
    return value.astimezone(UTC).isoformat()


def _load(value: Any, kind: Any, path: str) -> Any:
    origin = get_origin(kind)
    if origin in {Union, UnionType}:
        if value is None and NoneType in get_args(kind):
            return None
        (inner,) = [arg for arg in get_args(kind) if arg is not NoneType]
        return _load(value, inner, path)
    if origin in {tuple, frozenset}:
        return _load_many(value, kind, path)
    if is_dataclass(kind):
        return _load_record(value, kind, path)
    if kind is float and type(value) is int:
        return value
    reader = {Decimal: _decimal, datetime: _time}.get(kind)
    try:
        if reader is not None:
            return reader(value)
        if issubclass(kind, Enum):
            return kind(value)
    except (ValueError, TypeError, InvalidOperation):
        raise CodecError(f"{path}: {value!r} is no {kind.__name__}") from None
    if type(value) is not kind:
        raise CodecError(f"{path}: {value!r} is no {kind.__name__}")
    return value


def _load_many(value: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, list):
        raise CodecError(f"{path}: {value!r} is no list")
    kinds = get_args(kind)
    many = get_origin(kind) is frozenset or kinds[-1] is Ellipsis
    if many:
        kinds = (kinds[0],) * len(value)
    elif len(kinds) != len(value):
        raise CodecError(f"{path} has {len(value)} values and not {len(kinds)}")
    loaded = (
        _load(item, inner, f"{path}[{i}]")
        for i, (item, inner) in enumerate(zip(value, kinds, strict=True))
    )
    return frozenset(loaded) if get_origin(kind) is frozenset else tuple(loaded)


def _load_record(value: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise CodecError(f"{path}: {value!r} is no record")
    hints, needed = _shape(kind)
    unknown = sorted(set(value) - set(hints))
    missing = sorted(needed - set(value))
    if unknown or missing:
        wrong = f"unknown {', '.join(unknown)}" if unknown else f"missing {', '.join(missing)}"
        raise CodecError(f"{path}: {wrong}")
    return kind(**{name: _load(v, hints[name], f"{path}.{name}") for name, v in value.items()})


@cache
def _shape(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Types of a dataclass's fields, and the names of those without a default."""
    needed = (f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    return get_type_hints(kind), frozenset(needed)


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, str):
        raise TypeError(value)
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError(value)
    return number


def _time(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment.astimezone(UTC)
