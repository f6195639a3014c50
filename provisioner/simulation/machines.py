"""The machines of the fake cloud, and what time does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from provisioner.clock import Clock
from provisioner.errors import NotFound
from provisioner.providers.contract import EndReason, LaunchRequest, Machine, MachineState
from provisioner.providers.local.meter import Run

S = MachineState


@dataclass(slots=True)
class Record:
    """One machine: how it is seen, what it was launched with, and what will happen to it."""

    seen: Machine
    request: LaunchRequest
    due: tuple[datetime, MachineState, EndReason | None] | None = None
    runs: list[tuple[str, Run]] = field(default_factory=list)
    """Each run with the offer that it was billed by."""
    reclaim_at: datetime | None = None


class Machines:
    """Nothing happens between calls; each first catches up with what the clock says has happened.

    `delays_s` is how long it takes to come to a state; `ended` is told of each machine's end.
    """

    def __init__(
        self, clock: Clock, delays_s: Mapping[MachineState, float], ended: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._delays_s = delays_s
        self._ended = ended
        self._by_id: dict[str, Record] = {}
        self._by_launch: dict[str, list[Record]] = {}
        self._moving: dict[str, Record] = {}
        """Those to which something will happen."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._by_id.values())

    def __getitem__(self, machine_id: str) -> Record:
        """Raises `NotFound`."""
        found = self._by_id.get(machine_id)
        if found is None:
            raise NotFound(f"there is no machine {machine_id}")
        return found

    def of_launch(self, launch_id: str) -> list[Record]:
        return self._by_launch.get(launch_id, [])

    def add(self, record: Record) -> None:
        self._by_id[record.seen.id] = record
        self._by_launch.setdefault(record.seen.launch_id, []).append(record)
        self.head_for(record, S.PENDING, S.RUNNING)

    def forget(self, machine_id: str) -> None:
        """Have a machine vanish as if it had never been made."""
        record = self._by_id.pop(machine_id)
        self._moving.pop(machine_id, None)
        self._by_launch[record.seen.launch_id].remove(record)

    def head_for(
        self, record: Record, on_the_way: S, goal: S, reason: EndReason | None = None
    ) -> None:
        """Begin a transition, which ends by itself."""
        record.seen = replace(record.seen, state=on_the_way)
        record.due = (self._clock.now() + timedelta(seconds=self._delays_s[goal]), goal, reason)
        self._moving[record.seen.id] = record

    def reclaim(self, record: Record, at: datetime) -> None:
        """Have the market take it."""
        record.reclaim_at = at
        self._moving[record.seen.id] = record

    def catch_up(self) -> datetime:
        """Let happen what was due by now, each thing at its own time; returns now."""
        now = self._clock.now()
        for record in list(self._moving.values()):
            reclaim_at = record.reclaim_at
            if record.due and record.due[0] <= min(now, reclaim_at or now):
                self._arrive(record, *record.due)
            if reclaim_at is not None and reclaim_at <= now:
                self._arrive(record, reclaim_at, S.TERMINATED, EndReason.RECLAIMED)
            if record.due and max(record.due[0], reclaim_at or now) <= now:
                del self._moving[record.seen.id]
        return now

    def _arrive(self, record: Record, at: datetime, goal: S, reason: EndReason | None) -> None:
        seen = record.seen
        if seen.state in (S.TERMINATED, goal):
            return
        if goal is S.RUNNING:
            record.runs.append((seen.offer_id, Run(at, None)))
            record.seen = replace(seen, state=goal, run_started_at=at, run_ended_at=None)
            return
        ended = seen.run_ended_at
        if record.runs and record.runs[-1][1].end is None:
            offer_id, run = record.runs[-1]
            record.runs[-1] = (offer_id, Run(run.start, at))
            ended = at
        record.seen = replace(seen, state=goal, run_ended_at=ended, end_reason=reason)
        record.due = (at, goal, reason)
        if goal is S.TERMINATED:
            self._ended(seen.id)
