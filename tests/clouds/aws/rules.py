"""Faults on order: which calls are refused, delayed, cut off, or done without an answer."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clouds.aws.wire import Answer, Request, refusal

_LOG_LENGTH = 20_000


@dataclass(slots=True)
class Rule:
    """What happens to calls of `action` (a regular expression), until `count` of them had it.

    `match` narrows it to forms whose fields match, by name; both are regular expressions, so that
    `{"InstanceId\\\\..*": "i-1"}` finds an instance at any place of a list. `code` refuses; `drop`
    cuts the connection before anything happens, and `drop_after` once the call has taken effect.
    `every` makes only each n-th matching call meet it.
    """

    action: str = ".*"
    service: str = ".*"
    region: str = ".*"
    match: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    status: int = 400
    msg: str = ""
    delay_s: float = 0.0
    drop: bool = False
    drop_after: bool = False
    count: int | None = 1
    """None: for ever."""
    every: int = 1
    seen: int = 0

    def meets(self, request: Request) -> bool:
        """Whether this call has it; counts."""
        named = (
            (self.action, request.action),
            (self.service, request.service),
            (self.region, request.region),
        )
        if self.count == 0 or not all(re.fullmatch(*pair) for pair in named):
            return False
        if not all(_has(request.form, name, value) for name, value in self.match.items()):
            return False
        self.seen += 1
        if self.seen % self.every:
            return False
        if self.count is not None:
            self.count -= 1
        return True


class Rules:
    """The rules in force, and the log of all calls."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.calls: deque[dict[str, Any]] = deque(maxlen=_LOG_LENGTH)

    def for_call(self, request: Request) -> Rule | None:
        return next((rule for rule in self.rules if rule.meets(request)), None)

    def note(self, request: Request, status: int) -> None:
        """Log a call; status 0: its connection was cut."""
        self.calls.append(
            {
                "service": request.service,
                "action": request.action,
                "region": request.region,
                "status": status,
                "form": request.form,
            }
        )

    def clear(self) -> None:
        self.rules = []
        self.calls.clear()


def refused(rule: Rule, request: Request) -> Answer | None:
    """The refusal that a rule orders, after its delay."""
    if rule.delay_s:
        time.sleep(rule.delay_s)
    return refusal(request, rule.code, rule.msg, rule.status) if rule.code else None


def _has(form: Mapping[str, Any], name: str, value: str) -> bool:
    return any(
        re.fullmatch(name, key) and re.fullmatch(value, str(one)) for key, one in form.items()
    )
