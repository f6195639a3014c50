"""Small worlds to decide about: a Monday noon in UTC, one team, three offers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from textwrap import dedent
from typing import Any

import pytest

from policies.decide import decide
from policies.language import Policy
from policies.loading import load_policy
from policies.plan import Decision, Plan
from policies.world import (
    BudgetView,
    Desire,
    Instance,
    InstanceState,
    Job,
    JobState,
    Needs,
    Offer,
    OwnerKind,
    PurchaseMode,
    Resources,
    Snapshot,
    Workstation,
)

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SMALL = Needs(Resources(cpus=2, memory_gib=4))


@dataclass(frozen=True)
class Build:
    """Builders with defaults; a keyword changes one thing."""

    now: datetime = NOW

    def minutes_ago(self, minutes: float) -> datetime:
        return self.now - timedelta(minutes=minutes)

    def policy(self, body: str = "", name: str = "p", file: str = "p.yaml") -> Policy:
        return load_policy(f"policy: {name}\nversion: 1\n{dedent(body)}", file)

    def offer(
        self,
        mode: PurchaseMode = PurchaseMode.ON_DEMAND,
        price: str = "1.00",
        *,
        provider: str = "aws",
        region: str = "us-east-1",
        kind: str = "m5.large",
        cpus: float = 4,
        memory: float = 16,
        gpus: int = 0,
        model: str | None = None,
        currency: str = "USD",
        can_stop: bool | None = None,
    ) -> Offer:
        zone = f"{region}a"
        return Offer(
            id=f"{provider}/{region}/{zone}/{kind}/{mode.value}",
            provider=provider,
            region=region,
            zone=zone,
            instance_type=kind,
            mode=mode,
            resources=Resources(cpus, memory, gpus, model),
            price_per_hour=Decimal(price),
            currency=currency,
            can_stop=mode is not PurchaseMode.SPOT if can_stop is None else can_stop,
        )

    def spot(self, price: str = "0.30", **changes: Any) -> Offer:
        return self.offer(PurchaseMode.SPOT, price, **changes)

    def workstation(self, **changes: Any) -> Workstation:
        values: dict[str, Any] = {
            "id": "ws-ana",
            "name": "ana",
            "team": "research",
            "user": "ana",
            "needs": SMALL,
            "desire": Desire.ON,
            "generation": 1,
        }
        return Workstation(**{**values, **changes})

    def job(self, **changes: Any) -> Job:
        values: dict[str, Any] = {
            "id": "job-1",
            "name": "train",
            "team": "research",
            "user": "ana",
            "needs": SMALL,
            "state": JobState.QUEUED,
            "attempt": 0,
            "queued_at": self.minutes_ago(1),
        }
        return Job(**{**values, **changes})

    def instance(self, owner: Workstation | Job | None = None, **changes: Any) -> Instance:
        kinds = {Workstation: OwnerKind.WORKSTATION, Job: OwnerKind.JOB}
        values: dict[str, Any] = {
            "id": "i-1",
            "owner_kind": kinds.get(type(owner), OwnerKind.NONE),
            "owner_id": owner.id if owner else None,
            "attempt": owner.attempt if isinstance(owner, Job) else 1,
            "state": InstanceState.READY,
            "offer": self.offer(),
            "created_at": self.minutes_ago(600),
            "ready_at": self.minutes_ago(590),
            "agent_seen_at": self.now,
        }
        return Instance(**{**values, **changes})

    def budget(self, spent: str = "0", forecast: str | None = None, **changes: Any) -> BudgetView:
        values: dict[str, Any] = {
            "team": "research",
            "amount": Decimal("1000.00"),
            "currency": "USD",
            "spent": Decimal(spent),
            "committed": Decimal(0),
            "forecast": Decimal(forecast) if forecast else None,
            "forecast_low": Decimal(forecast) if forecast else None,
            "forecast_high": Decimal(forecast) if forecast else None,
            "period_start": datetime(2026, 3, 1, tzinfo=UTC),
            "period_end": datetime(2026, 4, 1, tzinfo=UTC),
        }
        return BudgetView(**{**values, **changes})

    def snapshot(self, **changes: Any) -> Snapshot:
        values: dict[str, Any] = {
            "id": "snap-1",
            "now": self.now,
            "offers": (self.offer(), self.spot()),
        }
        return Snapshot(**{**values, **changes})

    def plan(self, *policies: Policy, **world: Any) -> Plan:
        return decide(self.snapshot(**world), policies)

    def decision(self, target: str, *policies: Policy, **world: Any) -> Decision:
        """The decision about one target in a world made of `world`."""
        (found,) = [d for d in self.plan(*policies, **world).decisions if d.target_id == target]
        return found

    def desk(self, *policies: Policy, at: datetime = NOW, **changes: Any) -> Decision:
        """The decision about Ana's workstation, which is ready since the early morning.

        Keywords that name a field of the machine change the machine, others the workstation.
        """
        machine_fields = Instance.__dataclass_fields__.keys() - Workstation.__dataclass_fields__
        machine = {k: v for k, v in changes.items() if k in machine_fields}
        rest = {k: v for k, v in changes.items() if k not in machine_fields}
        world = {k: rest.pop(k) for k in list(rest) if k in Snapshot.__dataclass_fields__}
        workstation = self.workstation(**{"instance_id": "i-1", **rest})
        instance = self.instance(workstation, **{"agent_seen_at": at, **machine})
        return self.decision(
            "ws-ana",
            *policies,
            **{"now": at, "workstations": (workstation,), "instances": (instance,), **world},
        )


@pytest.fixture(scope="session")
def build() -> Build:
    return Build()
