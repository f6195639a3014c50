"""An EC2 instance: what is read of it, and what it says in the contract's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from policies.world import PurchaseMode
from provisioner.providers.aws import tags
from provisioner.providers.contract import EndReason, Machine, MachineState

NAME = "aws"

_STATES = {
    "pending": MachineState.PENDING,
    "running": MachineState.RUNNING,
    "stopping": MachineState.STOPPING,
    "stopped": MachineState.STOPPED,
    "shutting-down": MachineState.TERMINATING,
    "terminated": MachineState.TERMINATED,
}
_ENDED = (MachineState.TERMINATING, MachineState.TERMINATED)
_ASKED = (
    "Client.UserInitiatedShutdown",
    "Client.UserInitiatedHibernate",
    "Client.UserInitiated",
)
_FROM_WITHIN = "Client.InstanceInitiatedShutdown"
_RECLAIMED = ("Server.SpotInstanceTermination", "Server.SpotInstanceShutdown")
_TRANSITION_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


@dataclass(frozen=True, slots=True)
class Instance:
    """The fields of `DescribeInstances` that are needed, in EC2's own words."""

    id: str
    type: str
    zone: str
    state: str
    lifecycle: str
    """`spot`, or empty for on-demand."""
    launched_at: str
    """When the current or last run began; changes with each start."""
    transition: str
    """Why and when it last changed its state, such as `User initiated (2026-03-01 10:00:00 GMT)`"""
    reason_code: str
    reason: str
    spot_request: str
    can_hibernate: bool
    volumes: tuple[str, ...]
    groups: tuple[str, ...]
    tags: Mapping[str, str]

    @property
    def region(self) -> str:
        return region_of(self.zone)

    @property
    def launch_id(self) -> str:
        return self.tags.get(tags.LAUNCH, "")

    @property
    def machine_state(self) -> MachineState:
        return _STATES[self.state]

    @property
    def ended(self) -> bool:
        return self.machine_state in _ENDED

    @property
    def mode(self) -> PurchaseMode:
        return PurchaseMode.SPOT if self.lifecycle == "spot" else PurchaseMode.ON_DEMAND

    @property
    def offer_id(self) -> str:
        """Of what it is now, so that it is right after a resize and for a fleet's choice too."""
        return offer_id(self.type, self.zone, self.mode)

    @property
    def stood_since(self) -> datetime | None:
        """When its last run ended, where EC2 says so."""
        told = _TRANSITION_TIME.search(self.transition)
        return None if told is None else datetime.fromisoformat(told[1]).replace(tzinfo=UTC)

    def machine(self, ended_at: datetime | None = None, note: str = "") -> Machine:
        """In the contract's words; `ended_at` is used where EC2 does not say when a run ended."""
        state = self.machine_state
        launched = stood = None
        if state is not MachineState.PENDING:
            launched = datetime.fromisoformat(self.launched_at)
        if state in (MachineState.STOPPED, MachineState.TERMINATED):
            stood = self.stood_since or ended_at
        return Machine(
            id=self.id,
            launch_id=self.launch_id,
            state=state,
            offer_id=self.offer_id,
            tags=tags.foreign(self.tags, self.launch_id),
            run_started_at=launched,
            # The end is told in whole seconds: it may seem to come before the start.
            run_ended_at=max(stood, launched) if stood and launched else None,
            end_reason=self._end_reason() if state is MachineState.TERMINATED else None,
            message=self.reason or note,
        )

    def _end_reason(self) -> EndReason:
        if self.reason_code in _RECLAIMED:
            return EndReason.RECLAIMED
        if self.reason_code in _ASKED:
            return EndReason.ASKED
        if self.reason_code == _FROM_WITHIN:
            return EndReason.UNKNOWN
        if self.reason_code.startswith(("Server.", "Client.")):
            return EndReason.FAILED
        return EndReason.ASKED if self.transition.startswith("User") else EndReason.UNKNOWN


def offer_id(instance_type: str, zone: str, mode: PurchaseMode) -> str:
    return f"{NAME}/{region_of(zone)}/{zone}/{instance_type}/{mode}"


def region_of(zone: str) -> str:
    """`us-east-1` of `us-east-1a`."""
    return zone.rstrip("abcdefghijklmnopqrstuvwxyz")
