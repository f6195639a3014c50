"""Moments and spans in words, in the zone of the people who will read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo


def at(moment: datetime, now: datetime, zone: tzinfo = UTC) -> str:
    """`19:04`, or `2026-03-02 19:04` when it is another day than now."""
    local = moment.astimezone(zone)
    same_day = local.date() == now.astimezone(zone).date()
    return local.strftime("%H:%M" if same_day else "%Y-%m-%d %H:%M")


def span(seconds: float) -> str:
    """`45s`, `12m`, `3h 05m`, `2d 04h`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m" if minutes else f"{rest}s"


def between(earlier: datetime, later: datetime) -> str:
    return span((later - earlier) / timedelta(seconds=1))


def zone_named(name: str | None) -> tzinfo:
    """The IANA zone of that name; UTC where there is none."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC
