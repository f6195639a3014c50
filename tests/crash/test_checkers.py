"""The checkers bite: a faulty protocol is caught at the very crash that its fault is about."""

from __future__ import annotations

import pytest

from policies.world import InstanceState
from provisioner.crashpoints import Point
from provisioner.store import actions, instances
from provisioner.store.actions import CallKind
from tests.crash import books, scenario
from tests.crash.conftest import MakePlane
from tests.crash.controlplane import FOREVER, Crash
from tests.crash.plane import Plane

pytestmark = pytest.mark.e2e


def test_a_new_launch_id_for_each_try_makes_a_twin(make_plane: MakePlane) -> None:
    plane = make_plane("forgetful")
    plane.start(Crash(Point.RETURNED, CallKind.LAUNCH))
    scenario.submit(plane)
    plane.await_crash()
    plane.wait(lambda: books.twins(plane), "the twin is noticed")
    assert "twin" in books.twins(plane)[0]


def test_a_call_that_counts_as_done_before_it_is_made_leaks(make_plane: MakePlane) -> None:
    plane = make_plane("rash")
    plane.start(Crash(Point.SUBMITTED, CallKind.TERMINATE))
    scenario.submit(plane)
    plane.await_crash()
    plane.wait(lambda: has_ticked(plane), "the new control plane has looked at the machines")
    assert nothing_left_to_do(plane)
    assert "nobody asks for its end" in books.leaks(plane)[0]


def has_ticked(plane: Plane) -> bool:
    return plane.get("/v1/status")["last_tick_at"] is not None


def nothing_left_to_do(plane: Plane) -> bool:
    """Only the machine's deadline, minutes away, would notice."""
    with plane.roost.store.read() as connection:
        (row,) = instances.live(connection)
        still = actions.due(connection, FOREVER)
    return row.state is InstanceState.TERMINATING and not still
