"""No statement of the service's daily work reads a table that only grows from end to end.

Every statement of the figures, the lists, the sweep, the retention, the claim, the finalise and the
matching is explained as it is run, by the planner that production has, on tables of some ten thousand
rows. Nothing here measures time.
"""

import base64
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import TupleRow, scalar_row

from mail_service import wiring
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.domain.deciding import Decision
from mail_service.domain.events import EventStatus
from mail_service.domain.outcomes import Accepted, Refused, Unknown
from mail_service.domain.states import EmailState
from mail_service.domain.suppression import ReleaseRule
from mail_service.runtime import Runtime
from mail_service.settings import Process, Settings
from mail_service.store import migrating, views
from mail_service.store.narrowing import Filter
from mail_service.store.pool import Database
from mail_service.workflows import decide, observe, operate, reconcile, retain
from tests.conftest import ENVIRONMENT
from tests.fakes import ScriptedMailer
from tests.steps import bring, look, send_all, ses_event, sign_up, write_email

GROW = {
    "email_outbox",
    "email_payloads",
    "email_recipients",
    "send_attempts",
    "attempt_recipients",
    "ses_events",
    "email_transitions",
}

MANY = 5_000
"""An index that is walked past so many rows, for nothing, is as bad."""

# Old enough mail and events on both sides of every number of days; a few that wait; nothing random.
ROWS = """
INSERT INTO mail_service.email_outbox (id, dedup_key, intent_hash, template, template_checksum, sender,
    state, reason, attempts, next_attempt_at, created_at, finished_at)
SELECT md5('email ' || n)::uuid, 'old-' || n, '', 'welcome-v1', 'c', 'shop@example.com',
       (CASE WHEN n <= 200 THEN 'pending' WHEN n % 200 = 0 THEN 'failed' ELSE 'submitted' END)
           ::mail_service.email_state,
       NULL, 1, CASE WHEN n <= 200 THEN now() + interval '1 day' END, at,
       CASE WHEN n > 200 THEN at + interval '2 seconds' END
FROM generate_series(1, 20000) n,
     LATERAL (SELECT now() - interval '7 minutes' - n * interval '15 minutes' AS at) t;
INSERT INTO mail_service.email_recipients (id, email_id, position, kind, address, address_hash)
SELECT id, id, 1, 'to', dedup_key || '@example.com', sha256(id::text::bytea)
FROM mail_service.email_outbox;
INSERT INTO mail_service.email_payloads (email_id, data) SELECT id, '{}' FROM mail_service.email_outbox;
INSERT INTO mail_service.send_attempts (id, email_id, number, epoch, state, provider_message_id, decision,
    started_at, finished_at)
SELECT id, id, 1, 0, (CASE state WHEN 'failed' THEN 'permanent' ELSE 'accepted' END)
           ::mail_service.attempt_state,
       CASE WHEN state <> 'failed' THEN 'old-' || id END, 'done', created_at, created_at
FROM mail_service.email_outbox;
INSERT INTO mail_service.attempt_recipients SELECT id, id FROM mail_service.email_outbox;
INSERT INTO mail_service.email_transitions (email_id, to_state, actor)
SELECT id, 'pending', 'test' FROM mail_service.email_outbox;
INSERT INTO mail_service.ses_events (id, topic_arn, sns_message_id, kind, status, provider_message_id,
    attempt_id, occurred_at, received_at, payload)
SELECT md5('event ' || n)::uuid, 't', 'old-' || n, 'delivery', s.status::mail_service.event_status,
       'old-' || e.id, CASE s.status WHEN 'matched' THEN e.id END, t.at, t.at, 'text'
FROM generate_series(1, 25000) n,
     LATERAL (SELECT md5('email ' || 1 + n % 20000)::uuid AS id) e,
     LATERAL (SELECT now() - interval '5 minutes' - n * interval '12 minutes' AS at) t,
     LATERAL (SELECT CASE WHEN n % 1000 = 0 THEN 'unmatched' WHEN n % 100 = 1 THEN 'foreign'
                          ELSE 'matched' END AS status) s;
"""


class Explained(psycopg.Cursor[Any]):
    """Asks for the plan of each statement before it runs it."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if re.match(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b", query):
            # What only reads is run for its plan as well, to see how many rows it looked at in vain.
            reads = query.lstrip().startswith("SELECT") and "FOR UPDATE" not in query
            how = (
                "EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) " if reads else "EXPLAIN (FORMAT JSON) "
            )
            with psycopg.Cursor(self.connection, row_factory=scalar_row) as cursor:
                (plan,) = cursor.execute(how + query, params).fetchone()
            Watched.statements += 1
            Watched.read_whole += [(table, query) for table in _read_whole(plan["Plan"])]
        return super().execute(query, params, **options)


def _read_whole(plan: dict[str, Any]) -> list[str]:
    below = [table for child in plan.get("Plans", []) for table in _read_whole(child)]
    table = plan.get("Relation Name")
    in_vain = plan.get("Rows Removed by Filter", 0) * plan.get("Actual Loops", 1)
    whole = plan["Node Type"] == "Seq Scan" or in_vain > MANY
    return below + ([table] if whole and table in GROW else [])


class Watched(Database):
    """The product's own connections, with plans taken down."""

    statements = 0
    read_whole: ClassVar[list[tuple[str, str]]] = []

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection[TupleRow]]:
        with super().connected() as connection:
            connection.cursor_factory = Explained
            yield connection


@pytest.fixture(scope="module")
def grown(postgres: EmbeddedPostgres) -> str:
    """A database of some age. Its clock is production's: the planner looks through no other."""
    url = postgres.create_database("grown")
    migrating.migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ROWS)
        connection.execute("VACUUM ANALYZE")
        connection.execute("UPDATE mail_service.send_rate SET per_second = 1e6, tokens = 1e6")
    return url


@pytest.fixture(scope="module")
def restored(postgres: EmbeddedPostgres) -> str:
    """A database of which the planner knows nothing: new and just filled, restored, or upgraded."""
    url = postgres.create_database("restored")
    migrating.migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for table in GROW:
            connection.execute(
                sql.SQL("ALTER TABLE mail_service.{} SET (autovacuum_enabled = off)").format(
                    sql.Identifier(table)
                )
            )
        connection.execute(ROWS)
        connection.execute("UPDATE mail_service.send_rate SET per_second = 1e6, tokens = 1e6")
    return url


@contextmanager
def watched(url: str, mailer: ScriptedMailer) -> Generator[Runtime]:
    environ = ENVIRONMENT | {"DATABASE_URL": url, "RETRY_BASE_SECONDS": "1"}
    db = Watched(url, name="plans", size=4)
    db.open()
    rt = wiring.runtime(Settings.from_env(environ, Process.WEB), Process.WEB, db)
    yield replace(rt, mailer=mailer, read_quota=mailer.quota)
    db.close()


@pytest.fixture
def old(grown: str, mailer: ScriptedMailer) -> Iterator[Runtime]:
    """A runtime on the database of some age."""
    with watched(grown, mailer) as rt:
        yield rt


def an_email(rt: Runtime, mailer: ScriptedMailer) -> None:
    """From intake to its last event, also by MessageId alone, twice, and with a stranger's."""
    key = str(uuid4())
    early = ses_event("Send", message_id=key)
    bring(rt, early)
    mailer.answers(Accepted(provider_message_id=key))
    email = write_email(rt, key)
    assert write_email(rt, key).email.id == email.email.id
    (claim,) = send_all(rt)
    for kind in ("Delivery", "Bounce", "Complaint"):
        bring(rt, ses_event(kind, tag=str(claim.row.attempt_id), message_id=key), f"{kind} {key}")
    bring(rt, ses_event("Delivery", message_id=key), f"Delivery {key}")
    bring(rt, ses_event("Delivery", message_id=f"not-{key}"))
    bring(rt, f"no event {key}")
    assert len(look(rt, email).events) == 4
    (standing,) = observe.list_suppressions(
        rt, address="ada@example.com", reason=None, active=True, after=None, limit=5
    ).items
    operate.release(
        rt,
        standing.id,
        rule=ReleaseRule.CONSENT_RENEWED,
        reason="test",
        confirmed=True,
        by="test",
    )


def decisions(rt: Runtime, mailer: ScriptedMailer) -> None:
    """A doubt that is resolved, a refusal that is requeued, a cancellation."""
    mailer.answers(Unknown(error_class="read_timeout"), Refused(error_class="rejected"))
    doubtful = write_email(rt, str(uuid4()), on_ambiguous="resend")
    send_all(rt)
    refused = write_email(rt, str(uuid4()))
    send_all(rt)
    seen = look(rt, doubtful)
    attempt_id = seen.attempts[-1].id
    reconcile.sweep(rt)
    decide.resolve(
        rt, seen.email.id, decision=Decision.ABANDON, reason="r", attempt_id=attempt_id, by="x"
    )
    decide.requeue(rt, refused.email.id, reason="mended", not_after=None, by="x")
    decide.cancel(rt, refused.email.id, by="x")


def lists(rt: Runtime, mailer: ScriptedMailer) -> None:
    """Every way to narrow a list, from its start and from further down.

    But for a template of which there is next to nothing: no index is kept for such a question.
    """
    middle = datetime.now(UTC) - timedelta(days=30)
    cursor = base64.urlsafe_b64encode(f"{middle.isoformat()} {UUID(int=7)}".encode()).decode()
    for after in (None, cursor):
        for wanted in (
            Filter(),
            *(Filter(state=state) for state in EmailState),
            Filter(template="welcome-v1"),
            Filter(address_hash=observe.address_hash(rt, "recipient", "nobody@example.com")),
            Filter(provider_message_id="none"),
            Filter(created_after=middle, created_before=middle + timedelta(days=1)),
            Filter(state=EmailState.FAILED, template="welcome-v1", created_before=middle),
        ):
            observe.list_emails(rt, wanted, after=after, limit=50)
        for status in (None, *EventStatus):
            observe.list_events(rt, status, after=after, limit=50)


def figures(rt: Runtime, mailer: ScriptedMailer) -> None:
    """What is shown at a glance."""
    observe.figures(rt)
    observe.readiness(rt)


def sweep(rt: Runtime, mailer: ScriptedMailer) -> None:
    """What the sweep does, with the retention, once there is much to do and once there is nothing."""
    reconcile.sweep(rt)
    retain.run(rt)
    retain.run(rt)


@pytest.mark.parametrize("work", [an_email, decisions, lists, figures, sweep])
def test_no_statement_reads_a_table_that_only_grows_from_end_to_end(
    old: Runtime, mailer: ScriptedMailer, work: Callable[[Runtime, ScriptedMailer], None]
) -> None:
    Watched.statements = 0
    Watched.read_whole.clear()
    work(old, mailer)
    assert Watched.statements > 5
    read_whole = {(table, " ".join(query.split())) for table, query in Watched.read_whole}
    assert read_whole == set()


def test_no_event_and_no_sign_up_reads_a_table_from_end_to_end_where_nothing_is_known_of_it(
    restored: str, mailer: ScriptedMailer
) -> None:
    with watched(restored, mailer) as rt:
        email = sign_up(rt)
        (claim,) = send_all(rt)
        Watched.statements = 0
        Watched.read_whole.clear()
        sign_up(rt, "bob@example.com")
        tag = str(claim.row.attempt_id)
        for kind in ("Send", "Delivery", "Bounce", "Complaint"):
            bring(rt, ses_event(kind, tag=tag, message_id=None), kind)
        bring(rt, ses_event("Delivery", tag=tag, message_id=None), "Delivery")
        bring(rt, ses_event("Delivery", message_id="unknown"), "of nobody")
        read_whole = {(table, " ".join(query.split())) for table, query in Watched.read_whole}
        statements = Watched.statements
        assert len(look(rt, email).events) == 4
    assert read_whole == set()
    assert statements > 10


class _Undone(Exception):
    """Takes a transaction down."""


def test_a_page_behind_emails_in_other_states_reads_none_of_their_rows(old: Runtime) -> None:
    rows = None
    with suppress(_Undone), old.db.transaction() as tx:
        # As where so many are pending that sorting them would cost more than to walk past the others.
        tx.run("DROP INDEX mail_service.email_outbox_due")
        last_pending = datetime.now(UTC) - timedelta(days=30)
        wanted = Filter(state=EmailState.PENDING)
        assert views.page(tx, wanted, after=(last_pending, UUID(int=0)), limit=50) == []
        rows = tx.maybe(
            int,
            "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables"
            " WHERE relid = 'mail_service.email_outbox'::regclass",
        )
        raise _Undone
    # Other tests of this database wrote a few emails that must be looked at.
    assert rows is not None
    assert rows < 1000


def test_a_statement_that_does_is_noticed(old: Runtime) -> None:
    Watched.read_whole.clear()
    with old.db.transaction() as tx:
        tx.maybe(int, "SELECT epoch FROM mail_service.email_outbox WHERE intent_hash = 'x'")
    assert [table for table, _ in Watched.read_whole] == ["email_outbox"]
