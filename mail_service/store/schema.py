"""What a process asks of the database before it relies on it: the schema's version, and durability."""

from functools import cache
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow

from mail_service.store.database import TRANSACTION_SECONDS, Tx
from mail_service.store.deadlines import Deadlines
from mail_service.store.session import conninfo

MIGRATIONS = Path(__file__).parents[2] / "migrations"


@cache
def newest() -> str:
    """Give the revision that this code needs: revisions are numbers, and the files bear them."""
    return max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


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
