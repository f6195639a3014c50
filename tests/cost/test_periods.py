"""Local days and months: clock changes, odd zones, refused offsets."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.errors import CostError, UnknownZone
from cost.periods import (
    Period,
    day_start,
    days,
    local_date,
    midnights,
    period_bounds,
    previous_period,
    zone,
)

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "America/St_Johns",
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Havana",
    "Pacific/Kiritimati",
]


@pytest.mark.parametrize("name", ["+02:00", "Etc/GMT-2", "EST", "Mars/Phobos", "", "../etc/hosts"])
def test_fixed_offsets_and_unknown_zones_are_refused(name):
    with pytest.raises(UnknownZone, match="IANA"):
        zone(name)


@pytest.mark.parametrize(
    ("tz", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
        ("Asia/Kathmandu", date(2026, 3, 29), 24),
        ("Africa/Cairo", date(2026, 4, 24), 23),  # Its midnight does not exist.
    ],
)
def test_a_day_has_the_hours_that_its_clocks_show(tz, day, hours):
    length = day_start(day + timedelta(days=1), tz) - day_start(day, tz)
    assert length == timedelta(hours=hours)


def test_kathmandu_midnight_is_at_a_quarter_past_in_utc():
    assert day_start(date(2026, 6, 2), "Asia/Kathmandu") == datetime(2026, 6, 1, 18, 15, tzinfo=UTC)


@pytest.mark.parametrize("tz", ZONES)
@given(day=st.dates(date(2024, 1, 1), date(2030, 12, 31)))
def test_a_day_starts_at_the_first_instant_with_its_date(tz, day):
    start = day_start(day, tz)
    assert local_date(start, tz) == day
    assert local_date(start - timedelta(microseconds=1), tz) == day - timedelta(days=1)


def test_the_budget_month_is_the_teams_and_survives_the_clock_change():
    march = period_bounds(datetime(2026, 3, 31, 21, 59, tzinfo=UTC), "Europe/Berlin")
    assert march == Period(
        datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 31, 22, tzinfo=UTC)
    )
    assert march.end - march.start == timedelta(days=31, hours=-1)
    assert period_bounds(march.end, "Europe/Berlin").start == march.end


def test_last_month_includes_its_last_day():
    may = previous_period(
        period_bounds(datetime(2026, 6, 15, tzinfo=UTC), "Asia/Kolkata"), "Asia/Kolkata"
    )
    assert local_date(may.end - timedelta(microseconds=1), "Asia/Kolkata") == date(2026, 5, 31)
    assert local_date(may.start, "Asia/Kolkata") == date(2026, 5, 1)


def test_december_is_followed_by_january():
    bounds = period_bounds(datetime(2026, 12, 31, 23, 59, tzinfo=UTC), "UTC")
    assert bounds.end == datetime(2027, 1, 1, tzinfo=UTC)


def test_an_unknown_period_is_refused():
    with pytest.raises(CostError, match="fortnightly"):
        period_bounds(datetime(2026, 1, 1, tzinfo=UTC), "UTC", "fortnightly")


def test_the_days_of_a_month_join_without_gaps():
    month = period_bounds(datetime(2026, 10, 5, tzinfo=UTC), "Europe/Berlin")
    found = days(month, "Europe/Berlin")
    assert len(found) == 31
    assert (found[0].start, found[-1].end) == (month.start, month.end)
    assert all(a.end == b.start for a, b in itertools.pairwise(found))


def test_midnights_lie_strictly_inside():
    start = day_start(date(2026, 6, 1), "Asia/Kolkata")
    assert list(midnights(start, start + timedelta(days=2), "Asia/Kolkata")) == [
        start + timedelta(days=1)
    ]
