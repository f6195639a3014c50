from __future__ import annotations

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from provisioner.store.engine import Store
from provisioner.store.migrate import upgrade
from provisioner.store.tables import metadata


def test_migrations_make_exactly_the_tables(store: Store) -> None:
    with store.write() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_upgrading_again_changes_nothing(store: Store) -> None:
    upgrade(store)
    with store.read() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).all() == [
            ("0002",)
        ]
