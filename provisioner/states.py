"""The allowed moves of instances and jobs, and how long a state may last.

The enums themselves live in `policies.world`, the lowest floor that speaks of them.
"""

from __future__ import annotations

from policies.world import InstanceState as I
from policies.world import JobState as J
from provisioner.errors import ConflictError

INSTANCE_MOVES: dict[I, frozenset[I]] = {
    I.PLANNED: frozenset({I.LAUNCHING, I.TERMINATING, I.TERMINATED, I.FAILED}),
    I.LAUNCHING: frozenset({I.BOOTING, I.FAILED, I.TERMINATING, I.TERMINATED, I.LOST}),
    I.BOOTING: frozenset(
        {I.READY, I.FAILED, I.TERMINATING, I.TERMINATED, I.LOST, I.STOPPING, I.STOPPED}
    ),
    I.READY: frozenset({I.STOPPING, I.DRAINING, I.TERMINATING, I.TERMINATED, I.LOST, I.STOPPED}),
    I.DRAINING: frozenset({I.TERMINATING, I.TERMINATED, I.LOST}),
    I.STOPPING: frozenset({I.STOPPED, I.HIBERNATED, I.TERMINATING, I.TERMINATED, I.LOST}),
    I.STOPPED: frozenset({I.STARTING, I.TERMINATING, I.TERMINATED, I.LOST}),
    I.HIBERNATED: frozenset({I.STARTING, I.TERMINATING, I.TERMINATED, I.LOST}),
    I.STARTING: frozenset({I.BOOTING, I.TERMINATING, I.TERMINATED, I.LOST, I.STOPPED}),
    I.TERMINATING: frozenset({I.TERMINATED, I.LOST}),
    I.LOST: frozenset({I.READY, I.TERMINATING, I.TERMINATED}),
    I.TERMINATED: frozenset(),
    I.FAILED: frozenset({I.TERMINATING, I.TERMINATED}),
}

JOB_MOVES: dict[J, frozenset[J]] = {
    J.QUEUED: frozenset({J.PLACING, J.CANCELLED, J.FAILED}),
    J.PLACING: frozenset({J.RUNNING, J.QUEUED, J.INTERRUPTED, J.CANCELLED, J.FAILED, J.SUCCEEDED}),
    J.RUNNING: frozenset({J.SUCCEEDED, J.FAILED, J.CANCELLED, J.INTERRUPTED, J.PAUSED}),
    J.PAUSED: frozenset({J.RUNNING, J.QUEUED, J.CANCELLED, J.FAILED}),
    J.INTERRUPTED: frozenset({J.QUEUED, J.CANCELLED, J.FAILED}),
    J.SUCCEEDED: frozenset(),
    J.FAILED: frozenset(),
    J.CANCELLED: frozenset(),
}

STATE_LIMIT_S: dict[I, float] = {
    I.PLANNED: 120.0,
    I.LAUNCHING: 300.0,
    I.BOOTING: 900.0,
    I.STARTING: 300.0,
    I.STOPPING: 300.0,
    I.DRAINING: 300.0,
    I.TERMINATING: 600.0,
    I.LOST: 600.0,
}
"""Seconds after which a transitional state is over and something is done about it."""


def check_instance_move(instance_id: str, old: I, new: I) -> None:
    """Raise `ConflictError` unless an instance may go from `old` to `new`."""
    if new not in INSTANCE_MOVES[old]:
        raise ConflictError(f"instance {instance_id} cannot go from {old} to {new}")


def check_job_move(job_id: str, old: J, new: J) -> None:
    """Raise `ConflictError` unless a job may go from `old` to `new`."""
    if new not in JOB_MOVES[old]:
        raise ConflictError(f"job {job_id} cannot go from {old} to {new}")
