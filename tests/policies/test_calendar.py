"""Opening hours over clock changes, midnight and closed dates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.calendar import Calendar
from policies.quantities import Window

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]

windows = (
    st.tuples(
        st.frozensets(st.integers(0, 6), min_size=1),
        st.integers(0, 95).map(lambda q: q * 15),
        st.integers(0, 96).map(lambda q: q * 15),
    )
    .filter(lambda parts: parts[1] != parts[2])
    .map(lambda parts: Window(*parts))
)
# Around the clock changes of 2026 in the zones above, and some plain weeks.
moments = st.sampled_from(
    [(3, 29), (10, 25), (3, 8), (11, 1), (4, 5), (10, 4), (6, 10), (12, 31)]
).flatmap(
    lambda day: st.integers(-3 * 24 * 60, 3 * 24 * 60).map(
        lambda minutes: datetime(2026, *day, tzinfo=UTC) + timedelta(minutes=minutes)
    )
)
calendars = st.builds(
    Calendar,
    st.lists(windows, min_size=1, max_size=3).map(tuple),
    st.lists(st.dates(date(2026, 3, 20), date(2026, 11, 8)), max_size=4).map(tuple),
    st.sampled_from(ZONES).map(ZoneInfo),
)


def calendar(*texts: str, closed: tuple[date, ...] = (), zone: ZoneInfo = BERLIN) -> Calendar:
    return Calendar(tuple(Window.parse(text) for text in texts), closed, zone)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@settings(max_examples=150, deadline=None)
@given(calendars, moments)
def test_the_boundaries_are_where_the_state_changes(cal: Calendar, moment: datetime) -> None:
    opening = cal.opening_at(moment)
    tick = timedelta(microseconds=1)
    for boundary in (opening.since, opening.until):
        if boundary is not None:
            assert cal.state_at(boundary - tick) != cal.state_at(boundary)
    if opening.since is not None:
        assert opening.since <= moment
        assert cal.state_at(opening.since) == opening.is_open
    if opening.until is not None:
        assert opening.until > moment
        assert cal.state_at(opening.until - tick) == opening.is_open
        assert cal.last_change(opening.until) == opening.until


@settings(max_examples=100, deadline=None)
@given(calendars, moments, st.integers(1, 14 * 24 * 4))
def test_between_boundaries_nothing_changes(cal: Calendar, moment: datetime, steps: int) -> None:
    later = moment + timedelta(minutes=15 * steps)
    until = cal.next_change(moment)
    if until is None or later < until:
        assert cal.state_at(later) == cal.state_at(moment)


@settings(max_examples=100, deadline=None)
@given(windows, moments, st.sampled_from(ZONES).map(ZoneInfo))
def test_far_from_clock_changes_the_wall_clock_says_it_all(
    window: Window, moment: datetime, zone: ZoneInfo
) -> None:
    wall = moment.astimezone(zone)
    offsets = {(wall + timedelta(hours=h)).astimezone(UTC).astimezone(zone).utcoffset()
               for h in range(-36, 37, 6)}  # fmt: skip
    if len(offsets) > 1:
        return
    minutes = wall.hour * 60 + wall.minute
    today, yesterday = wall.weekday(), (wall.weekday() - 1) % 7
    overnight = window.end < window.start
    expected = (
        (today in window.days and window.start <= minutes)
        or (yesterday in window.days and minutes < window.end)
        if overnight
        else today in window.days and window.start <= minutes < window.end
    )
    assert Calendar((window,), (), zone).state_at(moment) == expected


@settings(max_examples=60, deadline=None)
@given(calendars.filter(lambda c: not c.closed_on), st.integers(0, 6 * 24 * 60))
def test_a_week_later_it_is_the_same(cal: Calendar, minutes: int) -> None:
    moment = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    later = moment + timedelta(weeks=1)
    assert cal.state_at(moment) == cal.state_at(later)
    until = cal.next_change(moment)
    if until is not None:
        assert cal.next_change(later) == until + timedelta(weeks=1)


def test_a_night_window_goes_over_midnight_and_the_weekend() -> None:
    cal = calendar("mon-fri 22:00-06:00")
    assert cal.state_at(berlin("2026-03-07T05:59"))  # Friday's night, on Saturday
    assert not cal.state_at(berlin("2026-03-07T06:00"))
    assert not cal.state_at(berlin("2026-03-07T22:30"))
    assert cal.next_change(berlin("2026-03-07T07:00")) == berlin("2026-03-09T22:00")


def test_touching_windows_are_one() -> None:
    cal = calendar("mon 08:00-12:00", "mon 12:00-19:00")
    assert cal.next_change(berlin("2026-03-02T08:30")) == berlin("2026-03-02T19:00")


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28T22:00", 7), ("2026-10-24T22:00", 9), ("2026-06-06T22:00", 8)]
)
def test_a_night_is_as_long_as_the_clocks_make_it(day: str, hours: int) -> None:
    cal = calendar("22:00-06:00")
    start = berlin(day)
    end = cal.next_change(start)
    assert end is not None
    assert end - start.astimezone(UTC) == timedelta(hours=hours)


def test_a_skipped_boundary_comes_when_it_would_have_been() -> None:
    cal = calendar("02:30-12:00")
    assert cal.next_change(berlin("2026-03-29T01:00")) == berlin("2026-03-29T03:30")


def test_a_doubled_hour_opens_once() -> None:
    cal = calendar("02:30-12:00")
    opened = cal.next_change(berlin("2026-10-25T01:00"))
    assert opened == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    second_two_fifteen = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)
    assert cal.state_at(second_two_fifteen)


def test_a_window_in_the_skipped_hour_falls_away_with_it() -> None:
    cal = calendar("02:30-03:15")
    assert cal.next_change(berlin("2026-03-29T01:00")) == berlin("2026-03-30T02:30")


def test_on_a_closed_date_nothing_is_open() -> None:
    cal = calendar("mon-fri 08:00-19:00", closed=(date(2026, 12, 25),))
    assert not cal.state_at(berlin("2026-12-25T12:00"))
    assert cal.last_change(berlin("2026-12-25T12:00")) == berlin("2026-12-24T19:00")
    assert cal.next_change(berlin("2026-12-25T12:00")) == berlin("2026-12-28T08:00")


def test_a_long_closure_and_one_far_ahead_are_both_seen() -> None:
    weeks = tuple(date(2026, 12, 10) + timedelta(days=n) for n in range(30))
    cal = calendar("00:00-24:00", closed=weeks)
    assert cal.next_change(berlin("2026-03-02T00:00")) == berlin("2026-12-10T00:00")
    assert cal.next_change(berlin("2026-12-10T12:00")) == berlin("2027-01-09T00:00")
    assert cal.last_change(berlin("2027-06-01T12:00")) == berlin("2027-01-09T00:00")


def test_what_is_always_open_never_changes() -> None:
    opening = calendar("00:00-24:00").opening_at(berlin("2026-03-29T02:59"))
    assert (opening.is_open, opening.since, opening.until) == (True, None, None)
