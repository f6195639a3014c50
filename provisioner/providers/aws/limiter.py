"""Keeps our calls under the account's rates, so that AWS does not have to throttle them.

EC2 keeps one bucket of tokens for each account, region and action, and mutating calls refill far
slower than reading ones (docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html). Ours are
no larger, and shared by the actions of a class. Retries take tokens too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from provisioner.errors import ThrottledError

LONGEST_WAIT_S = 10.0
"""A call that would wait longer is refused instead: its row comes back later, no thread waits."""


class ActionClass(StrEnum):
    """Actions that share a bucket."""

    LAUNCH = "launch"
    CHANGE = "change"
    READ = "read"
    PRICES = "prices"


@dataclass(frozen=True, slots=True)
class Rate:
    burst: float
    per_s: float


RATES = {
    ActionClass.LAUNCH: Rate(5, 2),
    ActionClass.CHANGE: Rate(50, 5),
    ActionClass.READ: Rate(100, 20),
    ActionClass.PRICES: Rate(10, 10),
}
_LAUNCHES = frozenset({"RunInstances", "StartInstances", "CreateFleet"})
_READS = ("Describe", "Get", "List", "Receive")


def action_class(service: str, action: str) -> ActionClass:
    if service == "pricing":
        return ActionClass.PRICES
    if action in _LAUNCHES:
        return ActionClass.LAUNCH
    return ActionClass.READ if action.startswith(_READS) else ActionClass.CHANGE


class Limiter:
    """The buckets of one account. `monotonic` and `sleep` are those of `time`."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str, ActionClass], tuple[float, float]] = {}

    def wait(self, service: str, region: str, action: str) -> None:
        """Wait for a token; raises `ThrottledError` when that would take too long."""
        wait_s = self._take((service, region, action_class(service, action)))
        if wait_s > LONGEST_WAIT_S:
            raise ThrottledError(
                f"more calls of {action} wait in {region} than AWS lets through",
                remedy="It is tried again by itself.",
                retry_after_s=wait_s,
            )
        if wait_s > 0:
            self._sleep(wait_s)

    def _take(self, key: tuple[str, str, ActionClass]) -> float:
        """Take a token, also one that is yet to come; after how many seconds it is there."""
        rate = RATES[key[2]]
        with self._lock:
            now = self._monotonic()
            tokens, since = self._buckets.get(key, (rate.burst, now))
            tokens = min(rate.burst, tokens + (now - since) * rate.per_s) - 1
            wait_s = max(0.0, -tokens / rate.per_s)
            if wait_s <= LONGEST_WAIT_S:
                self._buckets[key] = (tokens, now)
            return wait_s
