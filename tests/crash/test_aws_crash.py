"""The control plane is killed while its machines are in AWS, and the account stays clean.

Its provider makes several calls for one of ours; it is killed before and after each of them. The
answers to some are lost on top of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from cost.ledger import ResourceKind, total
from cost.periods import Period
from provisioner.crashpoints import Point
from provisioner.ledger import entries
from provisioner.store.actions import CallKind
from tests.clouds.aws.control import AwsCloud
from tests.clouds.aws.fixtures import aws_cloud, aws_process  # noqa: F401  (fixtures)
from tests.crash import scenario
from tests.crash.aws_plane import AwsPlane
from tests.crash.controlplane import AWS_TYPES, BEFORE_AWS, FOREVER, Crash

pytestmark = pytest.mark.e2e

DESK = scenario.desk(CallKind.START)
JOB = scenario.job
RETURNED, SUBMITTED = Point.RETURNED, Point.SUBMITTED
ALL_ATTEMPTS = 8
_EXACT = Decimal("1e-9")

CASES = [
    pytest.param(Crash(RETURNED, CallKind.LAUNCH), DESK, "", id="desk launched"),
    pytest.param(Crash(RETURNED, CallKind.LAUNCH), JOB, "", id="job launched"),
    pytest.param(Crash(RETURNED, CallKind.STOP), DESK, "", id="stopped"),
    pytest.param(Crash(RETURNED, CallKind.START), DESK, "", id="started"),
    pytest.param(Crash(SUBMITTED, CallKind.TERMINATE), DESK, "", id="to be terminated"),
    pytest.param(Crash(RETURNED, CallKind.TERMINATE), JOB, "", id="terminated"),
    pytest.param(Crash(RETURNED, CallKind.DELETE_VOLUME), DESK, "", id="home deleted"),
    pytest.param(Crash(RETURNED, CallKind.TIDY), JOB, "", id="tidied up"),
    pytest.param(Crash(BEFORE_AWS + "RunInstances"), DESK, "", id="group made"),
    pytest.param(Crash(BEFORE_AWS + "CreateVolume"), DESK, "", id="machine made"),
    pytest.param(Crash(BEFORE_AWS + "AttachVolume"), DESK, "", id="home made"),
    pytest.param(Crash(BEFORE_AWS + "CreateFleet"), JOB, "", id="template made"),
    pytest.param(Crash(BEFORE_AWS + "DeleteLaunchTemplate"), JOB, "", id="fleet made"),
    pytest.param(Crash(RETURNED, CallKind.LAUNCH), DESK, "RunInstances", id="launch lost"),
    pytest.param(Crash(RETURNED, CallKind.LAUNCH), JOB, "CreateFleet", id="fleet lost"),
    pytest.param(
        Crash(RETURNED, CallKind.TERMINATE), DESK, "TerminateInstances", id="terminate lost"
    ),
    pytest.param(Crash(RETURNED, CallKind.LAUNCH), DESK, "CreateVolume", id="home lost"),
]


@pytest.fixture
def cloud(aws_cloud: AwsCloud) -> AwsCloud:  # noqa: F811
    aws_cloud.knobs(types=AWS_TYPES)
    return aws_cloud


@pytest.fixture
def plane(tmp_path: Path, wheels: Path, cloud: AwsCloud) -> Iterator[AwsPlane]:
    made = AwsPlane(tmp_path / "plane", wheels, cloud)
    yield made
    made.end()


@pytest.mark.parametrize(("crash", "part", "lost"), CASES)
def test_a_crash_leaves_nothing_in_the_account(
    plane: AwsPlane, crash: Crash, part: scenario.Scenario, lost: str
) -> None:
    before = plane.cloud.inventory()
    if lost:
        plane.cloud.rule(lost, drop_after=True, count=ALL_ATTEMPTS)
    plane.start(crash)
    expected = part(plane)
    plane.await_crash()
    scenario.settle(plane)
    plane.wait(lambda: plane.cloud.inventory() == before, "the account is as it was before")
    scenario.settle(plane)
    made = plane.cloud.instances()
    assert len(made) == len(expected.runs), "a twin was made"
    assert sum(len(one["runs"]) for one in made) == sum(expected.runs.values())
    assert plane.crashes == 1
    if lost:
        answers = [call["status"] for call in plane.cloud.calls(lost)]
        assert answers[:ALL_ATTEMPTS] == [0] * ALL_ATTEMPTS
    check_money(plane)


def test_a_new_launch_id_for_each_try_makes_a_twin(
    tmp_path: Path, wheels: Path, cloud: AwsCloud
) -> None:
    plane = AwsPlane(tmp_path / "plane", wheels, cloud, mutant="forgetful")
    plane.start(Crash(RETURNED, CallKind.LAUNCH))
    scenario.submit(plane)
    plane.await_crash()
    plane.wait(lambda: len(cloud.instances()) > 1, "the twin is noticed")
    plane.end()


def check_money(plane: AwsPlane) -> None:
    """The books against the cloud's own meter."""
    now = plane.roost.clock.now()
    begin = now - timedelta(days=1)
    with plane.roost.store.read() as connection:
        booked = entries(connection, Period(begin, FOREVER), now)
    machines = {
        entry.resource.name: total(entry.charges)
        for entry in booked
        if entry.resource.kind is ResourceKind.INSTANCE
    }
    bill = plane.cloud.bill(begin, now)
    assert {id for id, amount in machines.items() if amount} == bill.keys()
    for id, amount in bill.items():
        assert abs(machines[id] - amount) < _EXACT, plane.cloud.instances()
