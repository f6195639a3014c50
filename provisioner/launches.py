"""Every attempt to get a machine, as anyone may read it: which offer, when, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

import sqlalchemy as sa

from policies.world import InstanceState, OwnerKind, PurchaseMode
from provisioner.errors import NotFoundError
from provisioner.people import Actor, Role
from provisioner.store.actions import ActionState, CallKind
from provisioner.store.codec import offer_from_json
from provisioner.store.engine import Store
from provisioner.store.paging import Page, page
from provisioner.store.rows import Row
from provisioner.store.tables import action, instance
from provisioner.store.targets import target_id


class Outcome(StrEnum):
    """What came of an attempt."""

    PENDING = "pending"  # the provider has not answered for good
    LAUNCHED = "launched"
    FAILED = "failed"
    ABANDONED = "abandoned"  # it was not wanted any more before it was made


@dataclass(frozen=True, slots=True)
class LaunchView:
    """One attempt; `error` is the class of the provider's last error, `message` its own words."""

    id: str
    """The instance's."""
    owner_kind: OwnerKind
    owner_id: str | None
    attempt: int
    offer_id: str
    mode: PurchaseMode
    price_per_hour: Decimal
    currency: str
    outcome: Outcome
    tries: int
    error: str | None
    message: str | None
    created_at: datetime
    answered_at: datetime | None


class Launches:
    """Attempts, newest first."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(
        self, actor: Actor, limit: int, cursor: str | None, target: str | None = None
    ) -> Page[LaunchView]:
        """Those of one workstation, job or instance (id or name), or all that one may see.

        Raises:
            NotFoundError: there is no such target.
        """
        everything = actor.role is Role.ADMIN
        where = [] if everything else [instance.c.team_id == actor.team_id]
        joined = (action.c.subject_id == instance.c.id) & (action.c.kind == CallKind.LAUNCH)
        query = sa.select(
            instance,
            action.c.state.label("action_state"),
            action.c.tries,
            action.c.error_code,
            action.c.error,
            action.c.updated_at.label("answered_at"),
        ).join_from(instance, action, joined)
        with self._store.read() as connection:
            if target is not None:
                found = target_id(connection, actor.team_id, everything, target)
                if found is None:
                    raise NotFoundError(f"There is no {target!r} that you can see.")
                where.append((instance.c.owner_id == found) | (instance.c.id == found))
            return page(connection, query.where(*where), instance, limit, cursor, _view)


def _view(row: Row) -> LaunchView:
    offer = offer_from_json(row["offer"])
    outcome = _outcome(ActionState(row["action_state"]), InstanceState(row["state"]))
    failed = outcome is Outcome.FAILED
    return LaunchView(
        id=row["id"],
        owner_kind=OwnerKind(row["owner_kind"]),
        owner_id=row["owner_id"],
        attempt=row["attempt"],
        offer_id=offer.id,
        mode=offer.mode,
        price_per_hour=offer.price_per_hour,
        currency=offer.currency,
        outcome=outcome,
        tries=row["tries"],
        error=row["error_code"] or (row["reason"] if failed else None),
        message=row["error"] or (row["message"] if failed else None),
        created_at=row["created_at"],
        answered_at=None if outcome is Outcome.PENDING else row["answered_at"],
    )


def _outcome(call: ActionState, state: InstanceState) -> Outcome:
    if call in (ActionState.INTENDED, ActionState.SUBMITTED):
        return Outcome.PENDING
    if call is ActionState.DONE:
        return Outcome.LAUNCHED
    failed = call is ActionState.FAILED or state is InstanceState.FAILED
    return Outcome.FAILED if failed else Outcome.ABANDONED
