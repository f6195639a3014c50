"""Local days and budget periods: the one definition that every sum, budget and report uses.

Instants are UTC; a zone matters only where time is cut into days and months. A day starts at the
first instant that carries its date, so it lasts 23, 24 or 25 hours (24.5 on Lord Howe). Fixed
offsets are refused: a place's midnight moves with its clock changes, an offset's does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cost.errors import CostError, UnknownZone

MONTHLY = "monthly"


@dataclass(frozen=True, slots=True)
class Period:
    """Half-open span [start, end), both aware and in UTC."""

    start: datetime
    end: datetime

    def __contains__(self, at: datetime) -> bool:
        return self.start <= at < self.end


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name.

    Raises:
        UnknownZone: for `+02:00`, `Etc/GMT-2`, `EST` and names that do not exist.
    """
    fixed = name.startswith("Etc/GMT") or (name != "UTC" and "/" not in name)
    try:
        if not fixed:
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    raise UnknownZone(
        f"time zone {name!r} is not an IANA zone of a place; "
        "write one such as Europe/Berlin or Asia/Kolkata, or UTC"
    )


def utc(at: datetime) -> datetime:
    """The same instant in UTC; a naive time is refused."""
    if at.tzinfo is None:
        raise CostError(f"time {at.isoformat()} has no zone; give an aware datetime in UTC")
    return at.astimezone(UTC)


def local_date(at: datetime, tz: str) -> date:
    """The date on the wall at that instant."""
    return utc(at).astimezone(zone(tz)).date()


def day_start(day: date, tz: str) -> datetime:
    """The first instant of a local day, in UTC; the moment of the skip where it has no midnight."""
    return datetime.combine(day, time(), zone(tz)).astimezone(UTC)


def midnights(start: datetime, end: datetime, tz: str) -> Iterator[datetime]:
    """The local midnights strictly inside (start, end), in UTC and in order."""
    day = local_date(start, tz)
    last = local_date(end, tz)
    while day < last:
        day += timedelta(days=1)
        at = day_start(day, tz)
        if start < at < end:
            yield at


def days(period: Period, tz: str) -> tuple[Period, ...]:
    """The local days of a period, each cut to it."""
    cuts = [period.start, *midnights(period.start, period.end, tz), period.end]
    return tuple(Period(a, b) for a, b in itertools.pairwise(cuts) if a < b)


def period_bounds(now: datetime, tz: str, every: str = MONTHLY) -> Period:
    """The budget period around `now`: from local midnight of the 1st to that of the next 1st."""
    if every != MONTHLY:
        raise CostError(f"period {every!r} is not known; use {MONTHLY!r}")
    first = local_date(now, tz).replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return Period(day_start(first, tz), day_start(following, tz))


def previous_period(period: Period, tz: str) -> Period:
    """The month before, its last day included."""
    return period_bounds(period.start - timedelta(hours=1), tz)
