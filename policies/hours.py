"""The rule `hours`: off outside of opening hours, unless a person has started it since closing.

Level-triggered: it looks at the hours now, so a missed tick loses nothing. A person's own start
outside of hours stands until the next boundary; at the closing after that it is old.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from policies.calendar import Calendar, Opening
from policies.language import Policy
from policies.moments import at, zone_named
from policies.plan import Rank, Reason

RULE = "hours.open"


def calendar_of(policy: Policy, team_zone: str | None) -> Calendar | None:
    """The calendar of a policy's hours; a policy that names no zone takes the team's, else UTC."""
    hours = policy.hours
    if hours is None or hours.outside == "allow":
        return None
    return Calendar(hours.open, hours.closed_on, zone_named(hours.timezone or team_zone))


def closed(
    policy: Policy, opening: Opening, now: datetime, zone: tzinfo, started: datetime | None = None
) -> Reason | None:
    """Why the hours want it off now; None while they are open or a person's start stands."""
    if opening.is_open or kept_since(opening, started) is not None:
        return None
    ended = f"ended {at(opening.since, now, zone)}" if opening.since else "never begin"
    until = f", next {at(opening.until, now, zone)}" if opening.until else ""
    return policy.reason(
        Rank.HOURS,
        RULE,
        f"hours.open {ended} {zone}{until}",
        observed=at(now, now, zone),
        threshold=at(opening.since, now, zone) if opening.since else None,
    )


def ahead(
    policy: Policy, opening: Opening, now: datetime, zone: tzinfo, started: datetime | None = None
) -> Reason:
    """Why the hours do not want it off yet, and when they might."""
    until = f" until {at(opening.until, now, zone)} {zone}" if opening.until else " at all times"
    kept = None if opening.is_open else kept_since(opening, started)
    text = f"hours.open lasts{until}"
    if kept is not None:
        text = f"its person started it at {at(kept, now, zone)}, outside of hours; kept{until}"
    return policy.reason(Rank.HOURS, RULE, text, observed=at(now, now, zone))


def kept_since(opening: Opening, started: datetime | None) -> datetime | None:
    """When a person started it since the last closing; None when nobody did."""
    if started is None or (opening.since is not None and started < opening.since):
        return None
    return started
