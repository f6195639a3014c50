"""The test cloud from a test's side: starts its process, and gives its orders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

_ROOT = Path(__file__).parents[3]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What a client's environment needs; the cloud takes any."""


class AwsCloud:
    """A cloud that runs. What the words mean is told in `rules.py`, `knobs.py` and `spot.py`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=f"{url}/_f/", trust_env=False, timeout=30)
        self._rules: list[dict[str, Any]] = []

    def reset(self) -> None:
        """An empty account in which everything works at once."""
        self._rules = []
        self._ask("reset")

    def rule(self, action: str, **rule: object) -> None:
        """Add a fault to those that are ordered already; see `Rule`."""
        self._rules.append({"action": action, **rule})
        self._ask("rules", self._rules)

    def no_rules(self) -> None:
        self._rules = []
        self._ask("rules", [])

    def knobs(self, **values: object) -> None:
        self._ask("knobs", values)

    def now(self) -> datetime:
        return datetime.fromisoformat(self._ask("clock"))

    def stand_still(self, at: datetime) -> None:
        """Stop its clock at a time; it moves by `advance` only."""
        self._ask("clock", {"at": at.isoformat()})

    def advance(self, seconds: float) -> None:
        self._ask("clock", {"advance_s": seconds})

    def interrupt(self, instance: str, notice_s: float = 120.0) -> datetime:
        """Have the spot market take an instance; returns when."""
        told = self._ask("interrupt", {"instance": instance, "notice_s": notice_s})
        return datetime.fromisoformat(told)

    def rebalance(self, instance: str) -> None:
        self._ask("rebalance", {"instance": instance})

    def notices_queue(self, region: str) -> str:
        """The URL of a queue to which EventBridge brings what EC2 says of its instances."""
        return f"{self.url}{self._ask('queue', region)}"

    def metadata(self, instance: str, path: str) -> httpx.Response:
        """What an instance reads of itself, such as `latest/meta-data/instance-id`."""
        return httpx.get(f"{self.url}/_imds/{instance}/{path}", trust_env=False)

    def calls(self, action: str = "") -> list[Mapping[str, Any]]:
        """The calls so far, of one action or all."""
        return [call for call in self._ask("log") if action in ("", call["action"])]

    def inventory(self) -> dict[str, list[str]]:
        """All that costs money or stays behind, by region and kind."""
        found: dict[str, list[str]] = self._ask("inventory")
        return found

    def instances(self) -> list[dict[str, Any]]:
        """All instances ever, with the runs that are billed; user data is in base64."""
        found: list[dict[str, Any]] = self._ask("instances")
        return found

    def bill(self, start: datetime, end: datetime) -> dict[str, Decimal]:
        told = self._ask("bill", {"start": start.isoformat(), "end": end.isoformat()})
        return {id: Decimal(amount) for id, amount in told.items()}

    def close(self) -> None:
        self._http.close()

    def _ask(self, name: str, told: object = None) -> Any:
        answer = self._http.post(name, json=told)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def running() -> Iterator[AwsCloud]:
    """A cloud in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MOTO_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.clouds.aws.server"],
        cwd=_ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, "the test cloud did not start"
        cloud = AwsCloud(url)
        yield cloud
        cloud.close()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
