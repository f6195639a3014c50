"""When opening hours are open: weekly windows in a zone's wall time, as intervals of real time.

A boundary at a wall time that the clocks skip comes when the skipped time would have been (02:30
becomes 03:30), and one that happens twice comes at the first of the two; RFC 5545 reads them
alike. Since the state is read from the intervals and never from the wall clock, the second 02:30
of an autumn night cannot close what the first one opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from policies.quantities import MINUTES_A_DAY, Window

Interval = tuple[datetime, datetime]

_MARGIN_DAYS = 9
"""A week and a day on either side: a weekly pattern has each of its boundaries within a week."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The state of the hours at a moment, and its two boundaries."""

    is_open: bool
    since: datetime | None
    """When it last opened or closed; None if it never did."""
    until: datetime | None
    """When it next closes or opens; None if it never will."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Weekly windows, the dates on which they do not hold, and the zone of both."""

    windows: tuple[Window, ...]
    closed_on: tuple[date, ...]
    zone: tzinfo

    def state_at(self, moment: datetime) -> bool:
        """Whether it is open."""
        return any(start <= moment < end for start, end in _open_around(self, self._day(moment)))

    def next_change(self, moment: datetime) -> datetime | None:
        """The first boundary after a moment; None when none will come."""
        day = self._day(moment)
        later = sorted(d for d in self.closed_on if d > day)
        for around in (day, *later):
            after = [b for b in self._boundaries(around) if b > moment]
            if after:
                return min(after)
        return None

    def last_change(self, moment: datetime) -> datetime | None:
        """The last boundary at or before a moment; None when there was none."""
        day = self._day(moment)
        earlier = sorted((d for d in self.closed_on if d < day), reverse=True)
        for around in (day, *earlier):
            before = [b for b in self._boundaries(around) if b <= moment]
            if before:
                return max(before)
        return None

    def opening_at(self, moment: datetime) -> Opening:
        return Opening(self.state_at(moment), self.last_change(moment), self.next_change(moment))

    def _day(self, moment: datetime) -> date:
        return moment.astimezone(self.zone).date()

    def _boundaries(self, day: date) -> list[datetime]:
        """The boundaries around a day; where the computed span itself ends is none."""
        first = self._instant(day - timedelta(days=_MARGIN_DAYS), 0)
        last = self._instant(day + timedelta(days=_MARGIN_DAYS), 0)
        ends = (end for interval in _open_around(self, day) for end in interval)
        return [end for end in ends if first < end < last]

    def around(self, day: date) -> list[Interval]:
        """Open intervals around a day, merged and in order, a day wider than the margin."""
        found: list[Interval] = []
        for offset in range(-_MARGIN_DAYS - 2, _MARGIN_DAYS + 2):
            start_day = day + timedelta(days=offset)
            for window in self.windows:
                if start_day.weekday() in window.days:
                    found.append(self._interval(window, start_day))
        merged = _merged(found)
        for closed in self.closed_on:
            if abs((closed - day).days) <= _MARGIN_DAYS + 3:
                merged = _without(merged, self._instant(closed, 0), self._instant(closed, 1440))
        return merged

    def _interval(self, window: Window, day: date) -> Interval:
        end = window.end if window.end > window.start else window.end + MINUTES_A_DAY
        return self._instant(day, window.start), self._instant(day, end)

    def _instant(self, day: date, minutes: int) -> datetime:
        days, minutes = divmod(minutes, MINUTES_A_DAY)
        wall = datetime.combine(day + timedelta(days=days), time(minutes // 60, minutes % 60))
        return wall.replace(tzinfo=self.zone).astimezone(UTC)


@lru_cache(maxsize=512)
def _open_around(calendar: Calendar, day: date) -> list[Interval]:
    """Remembered, since every look of a day asks for the same few."""
    return calendar.around(day)


def _merged(intervals: list[Interval]) -> list[Interval]:
    """Joined where they touch or overlap; those that a skipped hour has emptied fall away."""
    merged: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[0] < i[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _without(intervals: list[Interval], start: datetime, end: datetime) -> list[Interval]:
    rest: list[Interval] = []
    for a, b in intervals:
        rest += [piece for piece in ((a, min(b, start)), (max(a, end), b)) if piece[0] < piece[1]]
    return rest
