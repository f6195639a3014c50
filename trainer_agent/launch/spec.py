"""One task as the control plane asks for it: a node's share of one attempt of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class SpecError(ValueError):
    """What the control plane sent is not a task or a command."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task; unknown fields of the wire are dropped, those with a default may be missing."""

    id: str
    job_id: str
    attempt: int
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    node: int = 0
    nodes: int = 1
    nproc: int = 1
    checkpoint_uri: str = ""
    grace_s: float = 30.0
    threads: int = 1
    master_addr: str = "127.0.0.1"
    master_port: int = 29500

    @classmethod
    def from_wire(cls, value: Any) -> TaskSpec:
        """Raises `SpecError` naming the field that is missing or of the wrong kind."""
        if not isinstance(value, Mapping):
            raise SpecError(f"a task must be an object, not {type(value).__name__}")
        spec = cls(
            id=safe_id(value.get("id")),
            job_id=_text(value, "job_id"),
            attempt=_whole(value, "attempt", None, least=0),
            argv=words(value.get("argv")),
            env=_environment(value.get("env")),
            node=_whole(value, "node", 0, least=0),
            nodes=_whole(value, "nodes", 1, least=1),
            nproc=_whole(value, "nproc", 1, least=1),
            checkpoint_uri=_text(value, "checkpoint_uri", ""),
            grace_s=seconds(value, "grace_s", 30.0),
            threads=_whole(value, "threads", 1, least=1),
            master_addr=_text(value, "master_addr", "127.0.0.1"),
            master_port=_whole(value, "master_port", 29500, least=0),
        )
        if spec.node >= spec.nodes:
            raise SpecError(f"task {spec.id}: node {spec.node} is not one of {spec.nodes}")
        return spec

    def to_wire(self) -> dict[str, Any]:
        return asdict(self) | {"argv": list(self.argv)}


def safe_id(value: Any) -> str:
    """An id that may name a file: it came over the network and must not lead out of a folder."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise SpecError(f"an id is 1 to 128 of A-Z a-z 0-9 . _ -, no dot first; got {value!r}")
    return value


def words(value: Any) -> tuple[str, ...]:
    """A command: at least one string, none with a NUL in it."""
    if not isinstance(value, list) or not value:
        raise SpecError("argv must be a list of at least one string")
    if not all(isinstance(word, str) and "\0" not in word for word in value):
        raise SpecError("argv must hold strings without NUL characters")
    return tuple(value)


def seconds(value: Mapping[str, Any], name: str, default: float) -> float:
    """A duration in seconds, not negative."""
    number = value.get(name, default)
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 1e9:
        raise SpecError(f"{name} must be a number of seconds, not {number!r}")
    return float(number)


def _text(value: Mapping[str, Any], name: str, default: str | None = None) -> str:
    text = value.get(name)
    if text is None and default is not None:
        return default
    if not isinstance(text, str) or "\0" in text:
        raise SpecError(f"{name} must be a string, not {text!r}")
    return text


def _whole(value: Mapping[str, Any], name: str, default: int | None, *, least: int) -> int:
    number = value.get(name, default)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise SpecError(f"{name} must be a whole number of at least {least}, not {number!r}")
    return number


def _environment(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SpecError("env must be an object of strings")
    for name, text in value.items():
        if not isinstance(text, str) or "\0" in text or not name or "=" in name or "\0" in name:
            raise SpecError(f"env: {name!r} must be a variable's name with a string")
    return dict(value)
