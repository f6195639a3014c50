"""Brings a database to the tables of this version, by alembic."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError

from provisioner.errors import StateError
from provisioner.store.engine import Store

SCRIPTS = Path(__file__).with_name("migrations")


def upgrade(store: Store) -> None:
    """Run the migrations that are missing; two processes at once do it one after the other.

    Raises:
        StateError: the database cannot be opened, or is newer than this version.
    """
    try:
        with store.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7280871)"))
            command.upgrade(_config(connection), "head")
    except DBAPIError as error:
        where = store.url.render_as_string(hide_password=True)
        raise StateError(
            f"The database {where} cannot be used: {error.orig}.",
            remedy="Check that it is there, that it may be written and that its disk has room.",
        ) from error
    except CommandError as error:
        raise StateError(
            f"The database was written by another version of Roost: {error}.",
            remedy="Run the version that wrote it, or a newer one.",
        ) from error


def _config(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    return config
