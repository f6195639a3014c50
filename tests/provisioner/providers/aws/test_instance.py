"""What an instance says in the contract's words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from policies.world import PurchaseMode
from provisioner.providers.aws.instance import Instance, offer_id
from provisioner.providers.contract import EndReason, MachineState

STARTED = datetime(2026, 3, 1, 10, tzinfo=UTC)
ENDED = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
BY_USER = "User initiated (2026-03-01 12:30:05 GMT)"
RUNNING = Instance(
    id="i-1",
    type="g5.xlarge",
    zone="eu-central-1b",
    state="running",
    lifecycle="",
    launched_at="2026-03-01T10:00:00.000Z",
    transition="",
    reason_code="",
    reason="",
    spot_request="",
    can_hibernate=False,
    volumes=(),
    groups=(),
    tags={"roost:launch": "one", "Name": "one", "job": "j1", "aws:ec2:fleet-id": "f"},
)


def test_a_running_machine() -> None:
    machine = RUNNING.machine()
    assert (machine.id, machine.launch_id, machine.state) == ("i-1", "one", MachineState.RUNNING)
    assert machine.offer_id == "aws/eu-central-1/eu-central-1b/g5.xlarge/on-demand"
    assert machine.tags == (("job", "j1"),)
    assert (machine.run_started_at, machine.run_ended_at) == (STARTED, None)


def test_a_name_that_was_asked_for_is_one_of_its_tags() -> None:
    named = replace(RUNNING, tags={**RUNNING.tags, "Name": "mine"})
    assert ("Name", "mine") in named.machine().tags


def test_a_pending_machine_has_not_begun_to_run() -> None:
    assert replace(RUNNING, state="pending").machine().run_started_at is None


def test_a_run_ends_when_ec2_says_so() -> None:
    stopped = replace(RUNNING, state="stopped", transition=BY_USER)
    assert stopped.machine(STARTED).run_ended_at == ENDED


def test_else_when_it_was_first_seen_to_stand_still() -> None:
    ended = replace(RUNNING, state="terminated", transition="Server.SpotInstanceTermination")
    assert ended.machine(ENDED).run_ended_at == ENDED


def test_a_running_machine_keeps_no_end_of_its_former_run() -> None:
    assert replace(RUNNING, transition=BY_USER).machine(ENDED).run_ended_at is None


def test_an_end_in_whole_seconds_is_not_before_its_start() -> None:
    ended = replace(
        RUNNING,
        state="terminated",
        launched_at="2026-03-01T12:30:05.700Z",
        transition=BY_USER,
    ).machine()
    assert ended.run_started_at is not None
    assert ended.run_ended_at == ended.run_started_at


@pytest.mark.parametrize(
    ("code", "transition", "reason"),
    [
        ("Server.SpotInstanceTermination", "", EndReason.RECLAIMED),
        ("Server.SpotInstanceShutdown", "", EndReason.RECLAIMED),
        ("Client.UserInitiatedShutdown", BY_USER, EndReason.ASKED),
        ("Client.InstanceInitiatedShutdown", BY_USER, EndReason.UNKNOWN),
        ("Server.InternalError", "", EndReason.FAILED),
        ("Server.InsufficientInstanceCapacity", "", EndReason.FAILED),
        ("Client.VolumeLimitExceeded", "", EndReason.FAILED),
        ("Client.InternalError", "", EndReason.FAILED),
        ("", BY_USER, EndReason.ASKED),
        ("", "", EndReason.UNKNOWN),
    ],
)
def test_why_it_ended(code: str, transition: str, reason: EndReason) -> None:
    ended = replace(RUNNING, state="terminated", reason_code=code, transition=transition)
    assert ended.machine(ENDED).end_reason is reason
    assert replace(ended, state="shutting-down").machine(ENDED).end_reason is None


def test_the_id_of_an_offer() -> None:
    assert offer_id("p5.48xlarge", "us-east-1a", PurchaseMode.SPOT) == (
        "aws/us-east-1/us-east-1a/p5.48xlarge/spot"
    )
