"""The database of a bench: empty at first, filled by statements of its own, empty again at the end.

Rows are copies of one that the product wrote itself, so that what is measured does not depend on what
the bench knows about the tables.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from actors import broker as brokers
from mail_service.cli import bench_cost
from mail_service.domain.address import keyed_hash
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store import migrating
from mail_service.workflows import submit
from mail_service.workflows.submit import EmailRequest

_TABLES = """
    SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
"""
_RATE = """
    UPDATE mail_service.send_rate
    SET per_second = 1000000, tokens = 1000000, factor = 1, throttled_at = NULL, day_left = NULL,
        filled_at = now(), unknowns_in_a_row = 0
"""
_COLUMNS = """
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = 'mail_service' AND table_name = %s
      AND is_generated = 'NEVER' AND is_identity = 'NO'
"""
_WITH_EMAIL = """
    SELECT table_name FROM information_schema.columns
    WHERE table_schema = 'mail_service' AND column_name = 'email_id'
      AND table_name NOT IN ('email_transitions')
"""

# What differs from copy to copy; g counts the copies.
_COPY: Mapping[str, str] = {
    "id": "md5(%(what)s || g)::uuid",
    "email_id": "md5('email' || g)::uuid",
    "dedup_key": "'bench:' || g",
    "address": "'bench-' || g || '@example.com'",
}
_HASHED = {"address_hash": "(%%(hashes)s::bytea[])[(g - %%(first)s + 1)::integer]"}
_FINISHED = {
    "state": "'submitted'",
    "next_attempt_at": "NULL",
    "finished_at": "mail_service.clock()",
}


class BenchDatabase:
    """One database that was empty and that the bench may do with as it likes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.postmaster: int | None = None
        self._kept: list[str] = []
        self._copies = 0
        self._ours = False

    def prepare(self) -> None:
        """Migrate it. Raises Unavailable, and touches nothing, where there is a table already."""
        try:
            with self.connect() as connection:
                if connection.execute(_TABLES).fetchone() is not None:
                    raise Unavailable(
                        "DATABASE_URL names a database with tables in it. The bench needs an empty "
                        "one: it fills and empties it. Create one, or unset DATABASE_URL to have an "
                        "embedded PostgreSQL started."
                    )
                self.postmaster = bench_cost.postmaster(connection)
        except psycopg.OperationalError as fault:
            raise Unavailable(
                f"The database can't be reached ({type(fault).__name__}): check DATABASE_URL, or "
                "unset it to have an embedded PostgreSQL started."
            ) from fault
        self._ours = True
        migrating.migrate(self.url)
        brokers.install_schema(self.url)
        with self.connect() as connection:
            tables = [str(name) for (name,) in connection.execute(_TABLES)]
            self._kept = [t for t in tables if connection.execute(_any_row(t)).fetchone()]

    def leave(self) -> None:
        """Remove what was made."""
        if self._ours:
            with self.connect() as connection:
                connection.execute("DROP SCHEMA IF EXISTS mail_service, dramatiq CASCADE")

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection that commits each statement."""
        return psycopg.connect(
            self.url, autocommit=True, connect_timeout=5, application_name="bench"
        )

    def value(self, query: sql.SQL, *params: object) -> Any:  # noqa: ANN401 - of many types
        """Ask for one value."""
        with self.connect() as connection:
            row = connection.execute(query, params).fetchone()
        return None if row is None else row[0]

    def submitted(self) -> int:
        """Give how many emails are at that end."""
        count = "SELECT count(*) FROM mail_service.email_outbox WHERE state = 'submitted'"
        return int(self.value(sql.SQL(count)))

    def connections(self) -> int:
        """Give how many connections others have to this database."""
        count = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name <> 'bench' AND backend_type = 'client backend'"
        )
        return int(self.value(sql.SQL(count)))

    def reset(self) -> None:
        """Empty every table but those that were filled by the migrations; the send rate is no limit."""
        with self.connect() as connection:
            tables = [str(name) for (name,) in connection.execute(_TABLES)]
            emptied = [sql.SQL(name) for name in tables if name not in self._kept]  # pyright: ignore[reportArgumentType]
            connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(emptied)))
            connection.execute(_RATE)
            connection.execute("CHECKPOINT")
        self._copies = 0

    def fill(self, rt: Runtime, count: int) -> None:
        """Write emails that are due now, with content and recipient, in one commit."""
        model = _model(rt)
        first, last = self._copies + 1, self._copies + count
        self._copies = last
        numbers = {"first": first, "last": last}
        hashes = [
            keyed_hash(rt.address_key, f"bench-{g}@example.com") for g in range(first, last + 1)
        ]
        with self.connect() as connection, connection.transaction():
            self._copy(connection, "email_outbox", "id", model, numbers, {})
            for (table,) in connection.execute(_WITH_EMAIL).fetchall():
                given = {**numbers, "hashes": hashes}
                self._copy(connection, table, "email_id", model, given, _HASHED)
            _forget(connection, model)

    def fill_narrow(self, rt: Runtime, count: int, *, finished: bool) -> None:
        """Write rows of the outbox alone, due now or at their end: what a claim has to pass by."""
        model = _model(rt)
        step = 250_000
        with self.connect() as connection:
            for first in range(0, count, step):
                last = min(first + step, count)
                numbers = {"first": self._copies + first + 1, "last": self._copies + last}
                changes = _FINISHED if finished else {}
                self._copy(connection, "email_outbox", "id", model, numbers, changes)
            _forget(connection, model)
            connection.execute("VACUUM (ANALYZE) mail_service.email_outbox")
            connection.execute("CHECKPOINT")
        self._copies += count

    def _copy(
        self,
        connection: psycopg.Connection[Any],
        table: str,
        key: str,
        model: object,
        numbers: Mapping[str, object],
        changes: Mapping[str, str],
    ) -> None:
        columns = [str(name) for (name,) in connection.execute(_COLUMNS, (table,))]
        given: dict[str, str] = {**_COPY, **changes}
        what = "'email'" if table == "email_outbox" else f"'{table}'"
        values = [
            sql.SQL(given[name] % {"what": what})  # pyright: ignore[reportArgumentType]
            if name in given
            else sql.Identifier("m", name)
            for name in columns
        ]
        connection.execute(
            sql.SQL(
                "INSERT INTO {} ({}) SELECT {} FROM {} m, "
                "generate_series(%(first)s::bigint, %(last)s::bigint) g WHERE {} = %(model)s"
            ).format(
                sql.Identifier("mail_service", table),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(values),
                sql.Identifier("mail_service", table),
                sql.Identifier("m", key),
            ),
            {**numbers, "model": model},
        )


def _any_row(table: str) -> sql.Composed:
    return sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.SQL(table))  # pyright: ignore[reportArgumentType]


def _model(rt: Runtime) -> object:
    """Have the product write one email; gives its id."""
    request = EmailRequest(
        dedup_key="bench:model", template="bench-v1", to=("model@example.com",), data={"name": "Ada"}
    )  # fmt: skip
    return rt.db.transact(submit.submit_email(rt, request, actor="bench")).email.email.id


def _forget(connection: psycopg.Connection[Any], model: object) -> None:
    tables: Sequence[tuple[str]] = connection.execute(_WITH_EMAIL).fetchall()
    for table in (*(name for (name,) in tables), "email_outbox"):
        key = "id" if table == "email_outbox" else "email_id"
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE {} = %s").format(
                sql.Identifier("mail_service", table), sql.Identifier(key)
            ),
            (model,),
        )
