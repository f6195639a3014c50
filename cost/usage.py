"""From usage events to usage intervals: what ran, from when until when.

Events are facts somebody observed, appended once and never changed; they may arrive twice and out
of order. The intervals are derived from all of them, so that deriving again gives the same answer.
Events later than `now` have not happened yet and are left out. Nothing is ever guessed silently: an
end that nobody saw is flagged, and what makes no sense is a note.

The rules, one resource at a time:

- the same key twice is one event;
- a start while it runs is ignored, a stop while it does not run is ignored, both with a note;
- LOST ends the interval where the resource was last known, flagged as estimated. What is found
  again gets a STARTED: at the instant it was lost if it had run all along;
- at one and the same instant a running resource is stopped before it is started again, and one
  that does not run is started before it is stopped (and so ran for no time).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from cost.periods import utc


class UsageKind(StrEnum):
    """What happened to the resource."""

    STARTED = "started"
    STOPPED = "stopped"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """One observed change of a machine, or of a volume (created: STARTED, deleted: ENDED)."""

    key: str
    """Idempotency key: the same fact, however often it is reported, has the same key."""
    instance_id: str
    at: datetime
    kind: UsageKind
    estimated: bool = False
    """The instant was inferred, not observed."""


@dataclass(frozen=True, slots=True)
class UsageInterval:
    """Half-open [start, end) during which a resource was charged for; never empty."""

    instance_id: str
    start: datetime
    end: datetime
    open: bool = False
    """Still running: `end` is the `now` it was derived at."""
    estimated: bool = False

    @property
    def duration(self) -> timedelta:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class UsageNote:
    """An event that was not counted, and why."""

    instance_id: str
    key: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What the events say: intervals by resource and start, and what was left out."""

    intervals: tuple[UsageInterval, ...]
    notes: tuple[UsageNote, ...]


def derive_intervals(events: Iterable[UsageEvent], now: datetime) -> tuple[UsageInterval, ...]:
    """Non-overlapping intervals by resource id and start; see the module's rules."""
    return derive_usage(events, now).intervals


def derive_usage(events: Iterable[UsageEvent], now: datetime) -> Usage:
    """Intervals together with notes on the events that were not counted."""
    now = utc(now)
    unique, notes = _unique(events)
    intervals: list[UsageInterval] = []
    past = (event for event in unique if event.at <= now)
    for instance_id, group in groupby(past, key=lambda e: e.instance_id):
        run = _Run(instance_id)
        for at, same_time in groupby(group, key=lambda e: e.at):
            run.step(at, list(same_time))
        run.finish(now)
        intervals.extend(run.intervals)
        notes.extend(run.notes)
    return Usage(tuple(intervals), tuple(sorted(notes, key=_note_order)))


def clip_intervals(
    intervals: Iterable[UsageInterval], start: datetime, end: datetime
) -> tuple[UsageInterval, ...]:
    """The parts of the intervals inside [start, end)."""
    start, end = utc(start), utc(end)
    return tuple(
        UsageInterval(
            i.instance_id,
            max(i.start, start),
            min(i.end, end),
            i.open and i.end <= end,
            i.estimated,
        )
        for i in intervals
        if max(i.start, start) < min(i.end, end)
    )


class _Run:
    """The state of one resource while its events are read in order."""

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        self.intervals: list[UsageInterval] = []
        self.notes: list[UsageNote] = []
        self._started_by: UsageEvent | None = None
        self._over = False

    def step(self, at: datetime, events: list[UsageEvent]) -> None:
        """Apply everything that happened at one instant."""
        starts = [e for e in events if e.kind is UsageKind.STARTED]
        ends = [e for e in events if e.kind is not UsageKind.STARTED]
        ended = any(e.kind is UsageKind.ENDED for e in ends)
        if self._started_by is not None:
            if not ends:
                self._note(starts, "started while it already ran")
                return
            self._close(at, ends)
            if starts and not ended:
                self._open(starts[0])
        elif starts and ends:
            self._note(events, "started and stopped at the same instant")
        elif starts:
            if self._over:
                self._note(starts[:1], "started again after it had ended; counted")
            self._open(starts[0])
            self._note(starts[1:], "started while it already ran")
        else:
            self._note(ends, "stopped while it did not run")
        self._over = self._over or ended

    def finish(self, now: datetime) -> None:
        begun = self._started_by
        if begun is not None and begun.at < now:
            self.intervals.append(
                UsageInterval(self.instance_id, begun.at, now, open=True, estimated=begun.estimated)
            )

    def _open(self, event: UsageEvent) -> None:
        self._started_by = event

    def _close(self, at: datetime, ends: list[UsageEvent]) -> None:
        begun = self._started_by
        assert begun is not None
        guessed = all(e.estimated or e.kind is UsageKind.LOST for e in ends)
        self.intervals.append(
            UsageInterval(self.instance_id, begun.at, at, estimated=begun.estimated or guessed)
        )
        self._started_by = None

    def _note(self, events: Iterable[UsageEvent], text: str) -> None:
        self.notes.extend(UsageNote(e.instance_id, e.key, e.at, text) for e in events)


def _unique(events: Iterable[UsageEvent]) -> tuple[list[UsageEvent], list[UsageNote]]:
    """One event a key, in a total order that does not depend on the order of arrival."""
    ordered = sorted((_in_utc(e) for e in events), key=_event_order)
    by_key: dict[str, UsageEvent] = {}
    notes: list[UsageNote] = []
    for event in ordered:
        first = by_key.setdefault(event.key, event)
        if first != event:
            text = "same key as an earlier, different event"
            note = UsageNote(event.instance_id, event.key, event.at, text)
            if note not in notes:
                notes.append(note)
    return sorted(by_key.values(), key=_by_resource), notes


def _in_utc(event: UsageEvent) -> UsageEvent:
    return UsageEvent(event.key, event.instance_id, utc(event.at), event.kind, event.estimated)


def _event_order(event: UsageEvent) -> tuple[datetime, str, str, str, bool]:
    return (event.at, event.instance_id, event.key, event.kind.value, event.estimated)


def _by_resource(event: UsageEvent) -> tuple[str, datetime, bool, str]:
    return (event.instance_id, event.at, event.estimated, event.key)


def _note_order(note: UsageNote) -> tuple[datetime, str, str, str]:
    return (note.at, note.instance_id, note.key, note.text)
