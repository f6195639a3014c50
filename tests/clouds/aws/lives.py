"""The states that instances go through, in time; moto's own change at once.

Nothing happens between calls: each first catches up with what the clock says has happened since.
Of every instance the meter is kept: it is billed from its launch time to the call that ends the
run, if it ran at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from moto.ec2.models.instances import Instance, InstanceState, StateReason

from tests.clouds.aws.account import Account
from tests.clouds.aws.clock import CloudClock
from tests.clouds.aws.knobs import Knobs

CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
USER = ("User initiated", "Client.UserInitiatedShutdown", "User initiated shutdown")
HIBERNATE = ("User initiated", "Client.UserInitiatedHibernate", "User initiated hibernate")
RECLAIM = ("Service initiated", "Server.SpotInstanceTermination", "Spot instance termination")


@dataclass(slots=True)
class Run:
    """A time that is billed: what ran, and when."""

    instance_type: str
    start: datetime
    end: datetime | None = None


@dataclass(slots=True)
class Life:
    """What is known of an instance beside what moto keeps."""

    region: str
    instance: Any
    born_at: datetime
    spot_request: str = ""
    cancelled: bool = False
    due: tuple[datetime, str] | None = None
    ended_at: datetime | None = None
    runs: list[Run] = field(default_factory=list)
    reclaim_at: datetime | None = None

    @property
    def id(self) -> str:
        return str(self.instance.id)

    @property
    def state(self) -> str:
        return str(self.instance.state)

    @property
    def market(self) -> str:
        return "spot" if self.instance.lifecycle == "spot" else "on-demand"


class Lives:
    """All instances of the account."""

    def __init__(self, account: Account, clock: CloudClock, knobs: Knobs) -> None:
        self._account = account
        self._clock = clock
        self.knobs = knobs
        self._lives: dict[str, Life] = {}

    def __iter__(self) -> Iterator[Life]:
        return iter(list(self._lives.values()))

    def get(self, id: str) -> Life | None:
        return self._lives.get(id)

    def clear(self) -> None:
        self._lives.clear()

    def now(self) -> datetime:
        """In whole seconds, as EC2 tells time."""
        return self._clock.now().replace(microsecond=0)

    def catch_up(self) -> None:
        now = self._clock.now()
        for life in self:
            if life.due is not None and life.due[0] <= now:
                self._arrive(life)
            if life.reclaim_at is not None and life.reclaim_at <= now:
                life.reclaim_at = None
                self.end(life, RECLAIM)
        self._purge(now)

    def adopt(self, region: str) -> list[Life]:
        """Take care of instances that moto has just made; they are pending."""
        new = []
        for instance in self._account.instances(region):
            if instance.id in self._lives:
                break
            life = Life(region, instance, self._clock.now())
            instance.launch_time = self.now().replace(tzinfo=None)
            for interface in instance.nics.values():
                interface.delete_on_termination = True
            if instance.lifecycle == "spot":
                life.spot_request = "sir-" + instance.id[-8:]
                instance.spot_instance_request_id = life.spot_request
            self._lives[life.id] = life
            self._begin(life)
            new.append(life)
        return new

    def start(self, life: Life) -> None:
        if life.state == "stopped":
            life.instance.launch_time = self.now().replace(tzinfo=None)
            life.instance._reason, life.instance.state_reason = "", StateReason()
            self._begin(life)

    def stop(self, life: Life, *, hibernate: bool) -> None:
        if life.state == "running":
            self._end_run(life)
            self._explain(life, HIBERNATE if hibernate else USER)
            self._head_for(life, "stopping", "stopped", self.knobs.stopping_s)

    def end(self, life: Life, why: tuple[str, str, str] = USER) -> None:
        if life.state not in ("shutting-down", "terminated"):
            self._end_run(life)
            self._explain(life, why)
            self._head_for(life, "shutting-down", "terminated", self.knobs.stopping_s)

    def hidden(self, region: str, seconds: float) -> set[str]:
        """The ids of instances that are younger than that."""
        until = self._clock.now() - timedelta(seconds=seconds)
        return {life.id for life in self if life.region == region and life.born_at > until}

    def _begin(self, life: Life) -> None:
        life.runs.append(Run(life.instance.instance_type, self.now()))
        self._head_for(life, "pending", "running", self.knobs.pending_s)

    def _end_run(self, life: Life) -> None:
        if life.state == "pending":
            life.runs.pop()  # what never ran is not billed
        elif life.runs and life.runs[-1].end is None:
            life.runs[-1].end = self.now()

    def _explain(self, life: Life, why: tuple[str, str, str]) -> None:
        who, code, words = why
        life.instance._reason = f"{who} ({self.now():%Y-%m-%d %H:%M:%S} GMT)"
        life.instance.state_reason = StateReason(f"{code}: {words}", code)

    def _head_for(self, life: Life, on_the_way: str, goal: str, seconds: float) -> None:
        set_state(life.instance, on_the_way)
        life.due = (self._clock.now() + timedelta(seconds=seconds), goal)

    def _arrive(self, life: Life) -> None:
        assert life.due is not None
        (at, goal), life.due = life.due, None
        instance = life.instance
        told = instance._reason, instance.state_reason
        {"running": instance.start, "stopped": instance.stop, "terminated": instance.terminate}[
            goal
        ]()
        instance._reason, instance.state_reason = told
        if goal == "terminated":
            life.ended_at = at

    def _purge(self, now: datetime) -> None:
        long_ago = now - timedelta(seconds=self.knobs.purge_s)
        gone: dict[str, set[str]] = {}
        for life in self:
            if life.ended_at is not None and life.ended_at <= long_ago:
                gone.setdefault(life.region, set()).add(life.id)
        for region, ids in gone.items():
            self._account.forget(region, ids)


def set_state(instance: Any, name: str) -> None:
    instance._state = InstanceState(name, CODES[name])


def born_pending() -> None:
    """Have moto's instances begin as pending, so that its answer to a launch says so."""
    made = Instance.__init__

    def begun(self: Any, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        set_state(self, "pending")

    Instance.__init__ = begun  # type: ignore[method-assign]
