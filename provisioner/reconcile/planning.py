"""New intents: a call to be made, and a machine to be launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice

from policies.world import InstanceState, Offer, OwnerKind, PurchaseMode, Workstation
from provisioner.ids import launch_id, new_id
from provisioner.offers.catalogue import Catalogue
from provisioner.store import actions, instances
from provisioner.store.actions import ActionRow, ActionState, CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow

I = InstanceState
ALTERNATIVES = 20
ALTERNATIVE_MAY_COST = Decimal("1.2")
"""Of the price of the first."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What all intents of one tick share."""

    now: datetime
    epoch: int
    installation_id: str
    catalogue: Catalogue
    choosers: frozenset[str]
    """Providers that choose among the alternatives of a launch themselves."""
    desks: Mapping[str, Workstation]
    """The workstations as they were when it was decided."""


def intend(
    connection: Connection,
    kind: CallKind,
    subject_id: str,
    provider: str,
    epoch: int,
    now: datetime,
    decision_id: str | None = None,
) -> bool:
    """Record the intent to make a call; False when its subject has an open one."""
    return actions.insert(
        connection,
        ActionRow(
            id=new_id("act"),
            kind=kind,
            subject_id=subject_id,
            provider=provider,
            state=ActionState.INTENDED,
            epoch=epoch,
            tries=0,
            not_before=now,
            error_code=None,
            error=None,
            decision_id=decision_id,
            created_at=now,
            updated_at=now,
        ),
    )


def plan_instance(
    connection: Connection,
    offers: tuple[Offer, ...],
    decision_id: str,
    tick: Tick,
    *,
    owner_kind: OwnerKind,
    owner_id: str,
    team_id: str,
    generation: int,
    attempt: int,
    slot: int = 0,
    volume_id: str | None = None,
) -> None:
    id, offer = new_id("ins"), offers[0]
    instances.insert(
        connection,
        InstanceRow(
            id=id,
            owner_kind=owner_kind,
            owner_id=owner_id,
            team_id=team_id,
            generation=generation,
            attempt=attempt,
            slot=slot,
            launch_id=launch_id(
                tick.installation_id, owner_id, generation, attempt, slot, offer.id
            ),
            provider=offer.provider,
            machine_id=None,
            offer=offer,
            on_demand_price=_on_demand_price(offer, tick.catalogue),
            volume_id=volume_id,
            state=I.PLANNED,
            reason="decided",
            message=None,
            state_since=tick.now,
            created_at=tick.now,
            ready_at=None,
            ended_at=None,
            missing_count=0,
            last_listed_at=None,
            agent_seen_at=None,
            agent_boot_id=None,
            agent=None,
            notice_deadline=None,
            bootstrap_sha256=None,
            agent_sha256=None,
            decision_id=decision_id,
            alternatives=_alternatives(offers) if offer.provider in tick.choosers else (),
        ),
    )
    intend(connection, CallKind.LAUNCH, id, offer.provider, tick.epoch, tick.now, decision_id)


def _alternatives(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """What would do as well as the first, for a provider that knows where there is most capacity.

    Only spot gains by it: it is taken back least where there is most of it.
    """
    first = offers[0]
    if first.mode is not PurchaseMode.SPOT:
        return ()
    most = first.price_per_hour * ALTERNATIVE_MAY_COST
    alike = (first.provider, first.region, first.mode, first.currency)
    found = (
        offer
        for offer in offers[1:]
        if (offer.provider, offer.region, offer.mode, offer.currency) == alike
        and offer.price_per_hour <= most
    )
    return tuple(islice(found, ALTERNATIVES))


def _on_demand_price(offer: Offer, catalogue: Catalogue) -> Decimal | None:
    """What the same machine costs on demand; None when that is not sold."""
    same = catalogue.same(offer, PurchaseMode.ON_DEMAND)
    return same.price_per_hour if same and same.currency == offer.currency else None
