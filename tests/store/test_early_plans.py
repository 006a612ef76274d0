"""A plan that a drain made while a table was small still reads a few rows of it once it has grown.

A drain plans each of its statements once and keeps the plan. That of a table which was just filled, by
statistics that say it is empty, is still at work when it holds millions. So: the statements are planned
on tables of a few rows, and no kept plan may read an index, or a table, from end to end. Which rows are
there later does not matter any more, and nothing here measures time.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import scalar_row
from psycopg.types.json import Jsonb

from mail_service import wiring
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.domain.outcomes import Accepted, Deferred, Refused, Released, Unknown
from mail_service.runtime import Runtime
from mail_service.settings import Process, Settings
from mail_service.store import claims, migrating
from mail_service.store.line import Line
from mail_service.store.pool import Database
from mail_service.workflows import dispatch, record
from mail_service.workflows.dispatch import Ended
from tests.conftest import ENVIRONMENT
from tests.fakes import ScriptedMailer
from tests.steps import bring, ses_event, write_email
from tests.store.test_plans import ROWS

GROW = {
    "attempt_recipients",
    "email_outbox",
    "email_payloads",
    "email_recipients",
    "email_transitions",
    "send_attempts",
    "ses_events",
    "suppressions",
}

MORE = (
    ROWS.replace("20000", "400")
    .replace("25000", "500")
    .replace(
        "FROM mail_service.email_outbox;",
        "FROM mail_service.email_outbox WHERE dedup_key ~ '^old';",
    )
    + """
    INSERT INTO mail_service.suppressions (id, address_hash, reason, source)
    SELECT gen_random_uuid(), address_hash, 'manual', 'test' FROM mail_service.email_recipients
    GROUP BY address_hash;
"""
)
SIZES: dict[str, LiteralString] = {
    "some fifty": "SELECT 1",
    "some fifty, analyzed": "ANALYZE",
    "some hundred": MORE,
    "some hundred, analyzed": "VACUUM ANALYZE",
}
"""What the planner may find when it plans for long."""

TIMES = 8
"""How often each statement is run: psycopg has the server keep it from the sixth time on."""


@pytest.fixture
def url(postgres: EmbeddedPostgres) -> str:
    """A database in which there is nothing yet."""
    url = postgres.create_database(f"early_{uuid4().hex}")
    migrating.migrate(url)
    return url


@pytest.fixture
def line(url: str) -> Iterator[Line]:
    """A drain's own connection."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE mail_service.send_rate SET per_second = 1e6, tokens = 1e6")
    line = Line(url, name="early")
    yield line
    line.close()


@pytest.fixture
def drain(url: str, line: Line, mailer: ScriptedMailer) -> Iterator[Runtime]:
    """What the drain works with, on that connection."""
    db = Database(url, name="early", size=1)
    settings = Settings.from_env(ENVIRONMENT | {"DATABASE_URL": url}, Process.WEB)
    rt = wiring.runtime(settings, Process.WEB, db)
    yield replace(rt, db=line, mailer=mailer, read_quota=mailer.quota)
    db.close()


def test_no_plan_that_was_made_early_reads_a_table_that_grows_from_end_to_end(
    drain: Runtime, line: Line, url: str
) -> None:
    for round_ in range(TIMES):
        work(drain, f"m-{round_}")
    read_whole: set[tuple[str, str, str]] = set()
    for size, grow in SIZES.items():
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(grow)
        plans = kept(line)
        for mark in (
            "reserved_low",
            "jsonb_to_recordset",
            "message_id_taken",
            "brought",
            "SET delivered_at",
        ):
            assert any(mark in text for text in plans)
        read_whole |= {
            (size, table, " ".join(text.split()))
            for text, plan in plans.items()
            for table in whole(plan)
        }
    assert read_whole == set()


def test_one_that_does_is_noticed(line: Line) -> None:
    joined = """
        SELECT a.decision FROM jsonb_to_recordset(%s) AS f (id uuid)
        JOIN mail_service.send_attempts a ON a.id = f.id
    """
    for _ in range(TIMES):
        with line.transaction() as tx:
            tx.values(str, joined, (Jsonb([]),))
    assert [table for plan in kept(line).values() for table in whole(plan)] == ["send_attempts"]


def work(rt: Runtime, key: str) -> None:
    """Every step of the drain, with results of every kind, and an event that waited for its call."""
    for number in range(6):
        write_email(rt, f"{key}-{number}", to=(f"a{number}@example.com", "b@example.com"))
    assert dispatch.seconds_until_due(rt, dispatch.Frontier()) is not None
    plain, *others = dispatch.take(rt, 6)
    dispatch.take_probes(rt)
    # As if they had waited for longer than a look is good for.
    fresh, _ = dispatch.recheck(rt, [replace(claim, checked=-9.0) for claim in others])
    assert len(fresh) == 5
    with rt.db.transaction() as tx:
        claims.held_by(tx, [claim.row.attempt_id for claim in others])
    assert (
        record.results(rt, [Ended(row=plain.row, result=Accepted(provider_message_id=key))]) == []
    )
    to = ("b@example.com",)
    bring(rt, ses_event("Delivery", message_id=f"{key}-early", recipients=to), f"early {key}")
    kinds = (
        Accepted(provider_message_id=f"{key}-early"),
        Refused(error_class="rejected"),
        Deferred(error_class="busy"),
        Unknown(error_class="read_timeout"),
        Released(),
    )
    ended = [Ended(row=c.row, result=kind) for c, kind in zip(others, kinds, strict=True)]
    assert record.results(rt, ended) == []


def kept(line: Line) -> dict[str, dict[str, Any]]:
    """The plans that the connection keeps, by statement. Generic ones, for which any values serve."""
    found: dict[str, dict[str, Any]] = {}
    with (
        line.connected() as connection,
        psycopg.Cursor(connection, row_factory=scalar_row) as cursor,
    ):
        connection.execute("DISCARD PLANS")
        statements = connection.execute(
            "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements"
        ).fetchall()
        for name, text, count in statements:
            values = sql.SQL("({})").format(sql.SQL(", ").join([sql.NULL] * count))
            explain = sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE {}").format(sql.Identifier(name))
            with suppress(psycopg.errors.UndefinedObject):
                plan = cursor.execute(explain + (values if count else sql.SQL(""))).fetchone()
                assert plan is not None
                found[text] = plan[0]["Plan"]
    return found


def whole(plan: dict[str, Any]) -> list[str]:
    """The tables that grow of which a plan reads all, or all of an index."""
    below = [table for child in plan.get("Plans", []) for table in whole(child)]
    table = plan.get("Relation Name")
    reads = plan["Node Type"] in {"Seq Scan", "Index Scan", "Index Only Scan"}
    if reads and table in GROW and "Index Cond" not in plan:
        return [*below, table]
    if plan["Node Type"] == "Bitmap Index Scan" and "Index Cond" not in plan:
        return [*below, plan["Index Name"]]
    return below
