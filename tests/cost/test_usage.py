"""Usage events to intervals: what is counted, once, and what is flagged."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.errors import CostError
from cost.usage import (
    UsageEvent,
    UsageInterval,
    UsageKind,
    clip_intervals,
    derive_intervals,
    derive_usage,
)

T0 = datetime(2026, 6, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def event(minutes: float, kind: str, key: str | None = None, **more: object) -> UsageEvent:
    name = key or f"{kind}@{minutes}"
    return UsageEvent(name, "i-1", at(minutes), UsageKind(kind), **more)  # type: ignore[arg-type]


def test_a_start_and_a_stop_make_one_interval():
    assert derive_intervals([event(0, "started"), event(90, "stopped")], at(200)) == (
        UsageInterval("i-1", at(0), at(90)),
    )


def test_an_open_interval_runs_to_now():
    assert derive_intervals([event(0, "started")], at(7)) == (
        UsageInterval("i-1", at(0), at(7), open=True),
    )


def test_twenty_four_hours_are_twenty_four_hours():
    (interval,) = derive_intervals([event(0, "started"), event(1440, "ended")], at(9999))
    assert interval.duration == timedelta(hours=24)


def test_a_duplicate_stop_does_not_make_usage_negative():
    events = [event(0, "started"), event(10, "stopped"), event(20, "stopped", "again")]
    usage = derive_usage(events, at(60))
    assert [i.duration for i in usage.intervals] == [timedelta(minutes=10)]
    assert [n.text for n in usage.notes] == ["stopped while it did not run"]


def test_a_stop_without_a_start_is_a_note():
    usage = derive_usage([event(5, "stopped")], at(60))
    assert usage.intervals == ()
    assert usage.notes[0].key == "stopped@5"


def test_the_second_of_two_starts_is_ignored():
    usage = derive_usage([event(0, "started"), event(5, "started"), event(9, "ended")], at(60))
    assert usage.intervals == (UsageInterval("i-1", at(0), at(9)),)
    assert usage.notes[0].text == "started while it already ran"


def test_a_lost_end_is_flagged_and_neither_loses_nor_invents_time():
    found = [event(0, "started"), event(30, "lost"), event(30, "started", "found", estimated=True)]
    intervals = derive_intervals([*found, event(50, "ended")], at(60))
    assert sum((i.duration for i in intervals), timedelta()) == timedelta(minutes=50)
    assert all(i.estimated for i in intervals)


def test_what_ends_after_it_was_lost_is_not_charged_for_the_time_between():
    usage = derive_usage([event(0, "started"), event(30, "lost"), event(45, "ended")], at(60))
    assert usage.intervals == (UsageInterval("i-1", at(0), at(30), estimated=True),)


def test_an_observed_end_at_the_same_instant_outweighs_a_guess():
    events = [event(0, "started"), event(30, "lost"), event(30, "ended")]
    assert not derive_intervals(events, at(60))[0].estimated


def test_a_restart_at_the_instant_of_the_stop_makes_adjacent_intervals():
    events = [event(0, "started"), event(10, "stopped"), event(10, "started"), event(20, "ended")]
    assert derive_intervals(events, at(60)) == (
        UsageInterval("i-1", at(0), at(10)),
        UsageInterval("i-1", at(10), at(20)),
    )


def test_a_run_of_no_time_leaves_nothing_open():
    assert derive_intervals([event(3, "started"), event(3, "stopped")], at(60)) == ()


def test_a_machine_seen_alive_after_its_end_is_charged_and_noted():
    usage = derive_usage([event(0, "started"), event(10, "ended"), event(20, "started")], at(30))
    assert sum((i.duration for i in usage.intervals), timedelta()) == timedelta(minutes=20)
    assert usage.notes[0].text == "started again after it had ended; counted"


def test_the_same_key_with_another_content_is_counted_once_and_noted():
    usage = derive_usage([event(0, "started", "k"), event(5, "started", "k")], at(30))
    assert [i.start for i in usage.intervals] == [at(0)]
    assert usage.notes[0].text == "same key as an earlier, different event"


def test_events_after_now_have_not_happened():
    events = [event(0, "started"), event(50, "stopped")]
    assert derive_intervals(events, at(20)) == (UsageInterval("i-1", at(0), at(20), open=True),)


def test_instants_become_utc_and_naive_ones_are_refused():
    ist = timezone(timedelta(hours=5, minutes=30))
    moved = UsageEvent("a", "i-1", T0.astimezone(ist), UsageKind.STARTED)
    assert derive_intervals([moved], at(1))[0].start.tzinfo is UTC
    naive = UsageEvent("a", "i-1", T0.replace(tzinfo=None), UsageKind.STARTED)
    with pytest.raises(CostError, match="has no zone"):
        derive_intervals([naive], at(1))


def test_clipping_cuts_and_an_end_before_now_is_not_open():
    whole = UsageInterval("i-1", at(0), at(60), open=True)
    assert clip_intervals([whole], at(10), at(20)) == (UsageInterval("i-1", at(10), at(20)),)
    assert clip_intervals([whole], at(60), at(90)) == ()


EVENTS = st.lists(
    st.builds(
        UsageEvent,
        key=st.sampled_from("abcdefghijklmnop"),
        instance_id=st.sampled_from(["i-1", "i-2"]),
        at=st.integers(0, 30).map(at),
        kind=st.sampled_from(UsageKind),
        estimated=st.booleans(),
    ),
    max_size=24,
)


@given(EVENTS, st.integers(0, 40).map(at), st.randoms(use_true_random=False))
def test_order_and_repetition_of_events_change_nothing(events, now, random):
    again = events + random.choices(events, k=len(events)) if events else []
    random.shuffle(again)
    assert derive_usage(again, now) == derive_usage(events, now)


@given(EVENTS, st.integers(0, 40).map(at))
def test_intervals_are_never_empty_never_overlap_and_never_pass_now(events, now):
    intervals = derive_intervals(events, now)
    assert all(i.start < i.end <= now for i in intervals)
    for a, b in itertools.pairwise(intervals):
        assert a.instance_id < b.instance_id or a.end <= b.start
    assert all(i.end == now for i in intervals if i.open)


@given(EVENTS, st.integers(0, 39))
def test_time_that_is_over_is_derived_the_same_later(events, minute):
    early, late = at(minute), at(40)
    was = clip_intervals(derive_intervals(events, early), T0, early)
    # A key reused by a later event does not rewrite what its first event said.
    now_is = clip_intervals(derive_intervals(events, late), T0, early)
    assert [(i.instance_id, i.start, i.end) for i in was] == [
        (i.instance_id, i.start, i.end) for i in now_is
    ]
