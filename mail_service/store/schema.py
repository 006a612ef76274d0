"""Migrations: forward only, plain SQL inside alembic, safe to run twice and beside running workers."""

from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.rows import TupleRow
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from mail_service.store.database import TRANSACTION_SECONDS, Tx, conninfo
from mail_service.store.deadlines import Deadlines

MIGRATIONS = Path(__file__).parents[2] / "migrations"

# Any number that nothing else in the database uses as an advisory lock.
_ONE_AT_A_TIME = 7_205_519_340_026_413


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


@cache
def newest() -> str:
    """Give the revision that this code needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise LookupError("there are no migrations")
    return head


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


def durability_problem(url: str) -> str | None:
    """Say what makes a commit forgettable there; None when a commit is a commit, or nobody answers.

    For process entries, on a connection of its own: there may be no schema yet. A server that is away
    is no reason not to start.
    """
    deadlines = Deadlines(TRANSACTION_SECONDS)
    try:
        with (
            psycopg.connect(conninfo(url, "mail-service start")) as connection,
            deadlines.watch(connection),
        ):
            if _shown(connection, "fsync") != "on":
                return "fsync is off on this server: a crash would forget what was answered 2xx"
            if _shown(connection, "synchronous_commit") == "off":
                return "synchronous_commit is off for this role: a crash would forget commits"
    except psycopg.OperationalError:
        return None
    finally:
        deadlines.stop()
    return None


def _shown(connection: psycopg.Connection[TupleRow], name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return "" if row is None else str(row[0])


def version(tx: Tx) -> str | None:
    """Give the revision that the database has; None where it was never migrated."""
    if tx.maybe(str, "SELECT to_regclass('mail_service.schema_version')::text") is None:
        return None
    return tx.maybe(str, "SELECT version_num FROM mail_service.schema_version")
