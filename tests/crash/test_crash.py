"""The control plane is killed at every point of its protocol, and nothing comes of it."""

from __future__ import annotations

import pytest

from provisioner.crashpoints import Point
from provisioner.store.actions import CallKind
from tests.crash import books, scenario
from tests.crash.controlplane import IN_BOOT, TICK_POINTS, Crash
from tests.crash.plane import Plane
from tests.crash.scenario import Scenario

pytestmark = pytest.mark.e2e

KINDS: dict[str, tuple[CallKind, Scenario]] = {
    "launch a workstation": (CallKind.LAUNCH, scenario.desk(CallKind.LAUNCH)),
    "launch a job": (CallKind.LAUNCH, scenario.job),
    "start": (CallKind.START, scenario.desk(CallKind.START)),
    "stop": (CallKind.STOP, scenario.desk(CallKind.STOP)),
    "terminate": (CallKind.TERMINATE, scenario.desk(CallKind.TERMINATE)),
    "delete a volume": (CallKind.DELETE_VOLUME, scenario.desk(CallKind.DELETE_VOLUME)),
    "collect": (CallKind.COLLECT, scenario.stray),
}
NTH_TICKS = (1, 8)

CASES = [
    *(
        pytest.param(Crash(point, kind.value), part, id=f"{point}, {name}")
        for name, (kind, part) in KINDS.items()
        for point in Point
    ),
    *(
        pytest.param(Crash(point, nth=nth), scenario.everything, id=f"{point}, number {nth}")
        for point in TICK_POINTS
        for nth in NTH_TICKS
    ),
    pytest.param(Crash(IN_BOOT), scenario.desk(CallKind.LAUNCH), id="half launched, workstation"),
    pytest.param(Crash(IN_BOOT), scenario.job, id="half launched, job"),
    pytest.param(Crash(IN_BOOT, nth=2), scenario.desk(CallKind.START), id="half started"),
]


@pytest.mark.parametrize(("crash", "part"), CASES)
def test_a_crash_leaks_nothing_doubles_nothing_and_loses_nothing(
    plane: Plane, crash: Crash, part: Scenario
) -> None:
    plane.start(crash)
    expected = part(plane)
    plane.await_crash()
    scenario.settle(plane)
    assert plane.crashes == 1
    assert books.faults(plane, expected) == [], plane.log()
