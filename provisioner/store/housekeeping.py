"""Keeps what only explains the past at a size that a small disk holds. Touches no books."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from provisioner.store.engine import Store
from provisioner.store.tables import command, decision, snapshot, stray

KEPT = timedelta(days=30)


def prune(store: Store, now: datetime) -> None:
    """Forget what is older than `KEPT`, but for each target's last decision and its snapshot."""
    with store.write() as connection:
        newest = sa.select(sa.func.max(decision.c.at)).where(
            decision.c.target_id == sa.literal_column("outer_decision.target_id")
        )
        outer = decision.alias("outer_decision")
        old = sa.select(outer.c.id).where(
            outer.c.at < now - KEPT, outer.c.at < newest.scalar_subquery()
        )
        connection.execute(decision.delete().where(decision.c.id.in_(old)))
        used = sa.select(decision.c.snapshot_id)
        connection.execute(
            snapshot.delete().where(snapshot.c.at < now - KEPT, snapshot.c.id.not_in(used))
        )
        connection.execute(command.delete().where(command.c.ended_at < now - KEPT))
        connection.execute(stray.delete().where(stray.c.first_seen_at < now - KEPT))
