"""Runs the migrations on the connection that `retrieval.schema.migrate` hands over."""

from collections.abc import Collection, Mapping
from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import text

connection = context.config.attributes["connection"]


def keep_oldest_code(
    ctx: MigrationContext, step: MigrationInfo, heads: Collection[Any], run_args: Mapping[str, Any]
) -> None:
    """Note from which revision on code works with the schema, where the migration says so."""
    (revision,) = step.up_revision_ids  # none is a merge
    oldest = getattr(context.script.get_revision(revision).module, "oldest_code", None)
    if oldest is not None:
        connection.execute(
            text("UPDATE alembic_version SET oldest_code = :oldest"), {"oldest": oldest}
        )


context.configure(
    connection=connection, transaction_per_migration=True, on_version_apply=keep_oldest_code
)
with context.begin_transaction():
    context.run_migrations()
