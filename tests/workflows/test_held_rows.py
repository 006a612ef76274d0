"""Rows that somebody holds: an event about such an email is taken or refused, and nobody waits with it."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from mail_service.domain.outcomes import Unknown
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store.database import Transactions
from mail_service.store.pool import Database
from mail_service.store.views import EmailView
from mail_service.workflows import dispatch, ingest, reconcile, record
from mail_service.workflows.ingest import Taken
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, look, send_all, ses_event, sign_up, take_one, write_email


@contextmanager
def holding(
    sql: Sql, *emails: EmailView, table: str = "email_outbox", key: str = "id"
) -> Generator[Callable[[], None]]:
    """Hold the rows of emails from another connection; gives what lets go of them."""
    with psycopg.connect(sql.url) as connection:
        connection.execute(
            f"SELECT FROM mail_service.{table} WHERE {key} = ANY(%s) FOR UPDATE",  # pyright: ignore
            ([email.email.id for email in emails],),
        )
        yield connection.rollback


class Watched(Transactions):
    """Transactions that tell when one has ended, with its connection given back."""

    def __init__(self, inner: Transactions, ended: Callable[[], None]) -> None:
        self.begun = 0
        self._inner = inner
        self._ended = ended

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection]:
        self.begun += 1
        try:
            with self._inner.connected() as connection:
                yield connection
        finally:
            self._ended()


def in_doubt(rt: Runtime, mailer: ScriptedMailer, key: str = "order-1") -> tuple[EmailView, str]:
    """Give an email in doubt and the tag of its call."""
    email = write_email(rt, key, to=(f"{key}@example.com",))
    mailer.answers(Unknown(error_class="read_timeout"))
    (claim,) = send_all(rt)
    return email, str(claim.row.attempt_id)


def suppressed(sql: Sql) -> list[str]:
    return [
        row["address"]
        for row in sql("SELECT address FROM mail_service.suppressions WHERE released_at IS NULL")
    ]


@pytest.mark.parametrize(
    ("kind", "status", "stopped"),
    [
        ("Send", "submitted", []),
        ("Delivery", "delivered", []),
        ("Bounce", "bounced", ["ada@example.com"]),
        ("Complaint", "complained", ["ada@example.com"]),
        ("Reject", "rejected", []),
    ],
)
@pytest.mark.parametrize("tagged", [True, False])
def test_an_event_about_a_submitted_email_has_its_effect_while_somebody_holds_the_emails_row(
    rt: Runtime, sql: Sql, kind: str, status: str, stopped: list[str], tagged: bool
) -> None:
    email = write_email(rt)
    (claim,) = send_all(rt)
    with holding(sql, email):
        tag = str(claim.row.attempt_id) if tagged else None
        assert bring(rt, ses_event(kind, tag=tag)) is Taken.STORED
        seen = look(rt, email)
        assert (seen.recipients[0].status, len(seen.events)) == (status, 1)
        assert suppressed(sql) == stopped


@pytest.mark.parametrize("kind", ["Send", "Bounce"])
def test_an_event_that_proves_something_about_a_held_email_is_refused_whole_and_counts_when_it_comes_again(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, kind: str
) -> None:
    email, tag = in_doubt(rt, mailer)
    event = ses_event(kind, tag=tag, recipients=("order-1@example.com",))
    before = sql.dump()
    with holding(sql, email):
        for _ in range(2):
            with pytest.raises(Unavailable):
                bring(rt, event, "sns-1")
        assert sql.dump() == before
    assert bring(rt, event, "sns-1") is Taken.STORED
    assert bring(rt, event, "sns-1") is Taken.DUPLICATE
    assert look(rt, email).email.state == "submitted"
    assert suppressed(sql) == (["order-1@example.com"] if kind == "Bounce" else [])


def test_between_tries_an_event_holds_no_connection_and_is_taken_as_soon_as_the_row_is_free(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email, tag = in_doubt(rt, mailer)
    with holding(sql, email) as let_go:
        watched = Watched(rt.db, let_go)
        event = ses_event("Send", tag=tag)
        assert bring(replace(rt, db=watched), event) is Taken.STORED
    assert watched.begun == 2
    assert look(rt, email).email.state == "submitted"


def test_an_event_gives_up_after_its_pauses(rt: Runtime, mailer: ScriptedMailer, sql: Sql) -> None:
    email, tag = in_doubt(rt, mailer)
    with holding(sql, email):
        watched = Watched(rt.db, lambda: None)
        with pytest.raises(ingest.EmailHeld):
            bring(replace(rt, db=watched), ses_event("Send", tag=tag))
    assert watched.begun == len(ingest.PAUSES) + 1
    assert sum(ingest.PAUSES) < 1


def test_events_about_held_emails_leave_two_connections_to_everybody_else(
    rt: Runtime, database_url: str, sql: Sql
) -> None:
    """As many as a web process has. Nobody waits for a connection for as long as a row is held."""
    emails = [
        write_email(rt, f"order-{number}", to=(f"{number}@example.com",)) for number in range(12)
    ]
    tags = [str(claim.row.attempt_id) for claim in dispatch.take(rt, len(emails))]
    db = Database(database_url, name="two", size=2, wait_seconds=2)
    db.open()
    web = replace(rt, db=db)
    try:
        with holding(sql, *emails), ThreadPoolExecutor(len(tags)) as pool:
            refused = [
                pool.submit(bring, web, ses_event("Send", tag=tag, message_id=f"message-{tag}"))
                for tag in tags
            ]
            for number in range(20):
                sign_up(web, f"person-{number}@example.com")
            assert {type(one.exception()) for one in refused} == {ingest.EmailHeld}
    finally:
        db.close()


def test_a_repeated_event_about_a_held_email_is_answered(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email, tag = in_doubt(rt, mailer)
    other = write_email(rt, "order-2", to=("bob@example.com",))
    send_all(rt)
    quarantined = ses_event("Delivery", tag=tag, message_id="message-1")
    assert bring(rt, quarantined, "sns-1") is Taken.STORED
    assert sql.one("SELECT status::text FROM mail_service.ses_events") == "quarantined"
    with holding(sql, email, other):
        assert bring(rt, quarantined, "sns-1") is Taken.DUPLICATE


def test_a_sweep_passes_a_held_email_by_and_matches_its_event_when_the_row_is_free(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    """Events that met no call when they came, and whose calls were recorded in the same moment."""
    held, held_tag = in_doubt(rt, mailer, "order-1")
    free, free_tag = in_doubt(rt, mailer, "order-2")
    for tag in (held_tag, free_tag):
        bring(rt, ses_event("Delivery", tag=str(UUID(int=int(tag[-12:]) + 1000)), message_id=None))
    for tag in (held_tag, free_tag):
        sql(
            "UPDATE mail_service.ses_events SET request_tag = %s WHERE request_tag = %s",
            tag,
            str(UUID(int=int(tag[-12:]) + 1000)),
        )
    with holding(sql, held):
        swept = reconcile.sweep(rt)
        assert swept is not None
        assert swept.events_matched == 1
        assert [look(rt, one).email.state for one in (held, free)] == ["ambiguous", "submitted"]
    swept = reconcile.sweep(rt)
    assert swept is not None
    assert swept.events_matched == 1
    assert look(rt, held).email.state == "submitted"


def test_a_finalise_records_its_call_and_the_events_that_waited_while_another_email_is_held(
    rt: Runtime, sql: Sql
) -> None:
    """A waiting event names the held email's tag and this call's MessageId: no reason to wait for it."""
    held = sign_up(rt, "held@example.com")
    held_claim = take_one(rt)
    email = sign_up(rt)
    ended = call(rt, take_one(rt))
    bring(rt, ses_event("Delivery", message_id="message-1"))
    sql(
        "INSERT INTO mail_service.ses_events (id, topic_arn, sns_message_id, kind, status,"
        " provider_message_id, request_tag, occurred_at)"
        " VALUES (gen_random_uuid(), 'topic', 'sns', 'delivery', 'unmatched', 'message-1', %s, now())",
        str(held_claim.row.attempt_id),
    )
    with holding(sql, held):
        assert record.results(rt, [ended]) == []
        assert look(rt, email).recipients[0].status == "delivered"


def test_a_recipients_row_that_is_held_refuses_an_event_whole(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt)
    (claim,) = send_all(rt)
    event = ses_event("Bounce", tag=str(claim.row.attempt_id))
    before = sql.dump()
    with holding(sql, email, table="email_recipients", key="email_id"):
        with pytest.raises(Unavailable):
            bring(rt, event, "sns-1")
        assert sql.dump() == before
    assert bring(rt, event, "sns-1") is Taken.STORED
    assert look(rt, email).recipients[0].status == "bounced"
