"""Migrations: forward only, plain SQL inside alembic, safe to run twice and beside running workers.

On its own, because alembic and SQLAlchemy take longer to load than all the rest of a process.
"""

from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from mail_service.store.schema import MIGRATIONS
from mail_service.store.session import conninfo

# Any number that nothing else in the database uses as an advisory lock.
_ONE_AT_A_TIME = 7_205_519_340_026_413


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def migrate(url: str) -> tuple[str | None, str]:
    """Bring the schema to the newest revision; gives the revisions before and after."""

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(conninfo(url, "mail-service migrate"))

    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
    with engine.connect() as connection:
        # Waits for a twin; a lock that workers hold is given up after a while and can be tried again.
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({_ONE_AT_A_TIME})")
        connection.exec_driver_sql("SET lock_timeout = '10s'")
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS mail_service")
        connection.commit()
        before = _current(connection)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        after = _current(connection)
        connection.commit()
    engine.dispose()
    if after is None:
        raise LookupError("there are no migrations")
    return before, after


def _current(connection: Connection) -> str | None:
    context = MigrationContext.configure(
        connection, opts={"version_table": "schema_version", "version_table_schema": "mail_service"}
    )
    revision = context.get_current_revision()
    connection.commit()
    return revision
