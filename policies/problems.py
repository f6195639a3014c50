"""What is wrong with a policy, and where. Holds no rule of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error keeps a policy out; a warning is shown and the policy works without it."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to change in a policy file."""

    file: str
    line: int
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.file}:{self.line}: {self.severity}: {self.message}{hint}"


class PolicyError(ValueError):
    """A policy that cannot be used; `problems` says everything that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line, p.message)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class BadTextError(ValueError):
    """A word or quantity that cannot be read; `hint` says what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def nearest_line(lines: Mapping[str, int], path: str) -> int:
    """The line of a part, `allow.regions[2]`, or of the nearest part around it."""
    while path not in lines and path:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 1)
