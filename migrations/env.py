"""Runs the migrations on the connection that the caller opened (see mail_service/store/migrating.py)."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    version_table="schema_version",
    version_table_schema="mail_service",
    transaction_per_migration=True,
)
context.run_migrations()
