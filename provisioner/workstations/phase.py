"""A workstation's phase, derived from its wish and its machine; stored nowhere."""

from __future__ import annotations

from enum import StrEnum

from policies.world import Desire, InstanceState
from provisioner.store.instances import InstanceRow
from provisioner.store.workstations import WorkstationRow

I = InstanceState


class Phase(StrEnum):
    WAITING = "waiting"
    """It is on and has no machine yet."""
    STARTING = "starting"
    READY = "ready"
    MOVING = "moving"
    """Its machine is going away and it will get another."""
    OFF = "off"
    BROKEN = "broken"
    """It is on, and something that waiting will not mend is in the way."""
    GONE = "gone"


_OF_STATE = {
    I.PLANNED: Phase.STARTING,
    I.LAUNCHING: Phase.STARTING,
    I.BOOTING: Phase.STARTING,
    I.STARTING: Phase.STARTING,
    I.STOPPED: Phase.STARTING,
    I.HIBERNATED: Phase.STARTING,
    I.READY: Phase.READY,
    I.DRAINING: Phase.MOVING,
    I.STOPPING: Phase.MOVING,
    I.TERMINATING: Phase.MOVING,
    I.LOST: Phase.MOVING,
}


def phase_of(row: WorkstationRow, machine: InstanceRow | None) -> tuple[Phase, str]:
    """The phase and the reason for it."""
    if row.desire is Desire.GONE:
        return Phase.GONE, row.desire_reason
    if row.desire is Desire.OFF:
        stopping = machine is not None and machine.state not in (I.STOPPED, I.HIBERNATED)
        return (Phase.MOVING if stopping else Phase.OFF), row.desire_reason
    if machine is not None:
        return _OF_STATE.get(machine.state, Phase.WAITING), machine.reason
    if row.trouble is not None:
        return Phase.BROKEN, row.trouble
    return Phase.WAITING, row.desire_reason
