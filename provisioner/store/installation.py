"""The installation's one row, and the lease's."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from provisioner.store.engine import Store
from provisioner.store.tables import installation


def ensure(store: Store, new_id: str, now: datetime) -> str:
    """The installation's id; `new_id` becomes it when there is none yet."""
    with store.write() as connection:
        if connection.dialect.name == "postgresql":  # where writers do not wait for each other
            connection.exec_driver_sql("LOCK TABLE installation IN EXCLUSIVE MODE")
        found = connection.execute(sa.select(installation.c.id)).scalar()
        if found is not None:
            return str(found)
        connection.execute(installation.insert().values(id=new_id, created_at=now))
        return new_id
