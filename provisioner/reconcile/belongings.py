"""Writes down what a provider holds beside machines: volumes, and what nothing needs any more."""

from __future__ import annotations

from datetime import datetime, timedelta

from cost.usage import UsageKind
from provisioner.providers.contract import Listing
from provisioner.reconcile.observe import Observation
from provisioner.reconcile.planning import intend
from provisioner.store import cooldowns, ledger, workstations
from provisioner.store.actions import CallKind
from provisioner.store.engine import Connection
from provisioner.store.ledger import Fact
from provisioner.store.resources import volume_series

STRAY_GRACE = timedelta(minutes=10)
"""How long what nobody knows is left alone: its row may be on the way."""


def mirror_belongings(
    connection: Connection, seen: Observation, listing: Listing, epoch: int, now: datetime
) -> None:
    """Bring the volumes up to date, and have what is left over deleted."""
    _mirror_volumes(connection, seen, listing, epoch, now)
    _mirror_leftovers(connection, seen.provider, listing, epoch, now)


def _mirror_volumes(
    connection: Connection, seen: Observation, listing: Listing, epoch: int, now: datetime
) -> None:
    listed = {volume.id: volume for volume in listing.volumes}
    rows = workstations.volumes(connection, seen.provider)
    facts = []
    for row in rows:
        found = listed.get(row["id"])
        if found is not None:
            facts.append(Fact(row["id"], UsageKind.STARTED, found.created_at))
            if not row["seen"] or row["zone"] != found.zone:
                workstations.update_volume(connection, row["id"], seen=True, zone=found.zone)
        elif row["seen"] and row["deleting"] and not listing.silent_regions:
            facts.append(Fact(row["id"], UsageKind.ENDED, now))
            workstations.update_volume(connection, row["id"], deleted_at=now)
    ledger.add_events(connection, facts, now)
    price = seen.rates.volume_gib_month
    if rows and price is not None:
        ledger.add_prices(connection, volume_series(seen.provider), [price])
    for id in workstations.deleted_volumes(connection, listed.keys() - {row["id"] for row in rows}):
        intend(connection, CallKind.DELETE_VOLUME, id, seen.provider, epoch, now)


def _mirror_leftovers(
    connection: Connection, provider: str, listing: Listing, epoch: int, now: datetime
) -> None:
    """What a launch that is under way is about to use looks left over too: it is given time."""
    names = [f"{leftover.kind}/{leftover.id}" for leftover in listing.leftovers]
    cooldowns.forget_leftovers(connection, provider, but=names)
    for name in names:
        note = cooldowns.see_stray(connection, provider, name, "", now)
        if now - note["first_seen_at"] >= STRAY_GRACE:
            intend(connection, CallKind.TIDY, f"{provider}/{name}", provider, epoch, now)
