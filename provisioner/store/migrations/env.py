"""Alembic's entry: migrations run on the connection that `migrate.upgrade` gives."""

from alembic import context

from provisioner.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
