"""What is kept goes after its days, and what was promised about the email stays."""

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from mail_service.domain.outcomes import Refused
from mail_service.errors import Conflict
from mail_service.runtime import Runtime
from mail_service.store import retention
from mail_service.workflows import decide, ingest, observe, reconcile, retain
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, look, send_all, ses_event, take_one, write_email

DAY = 86_400


def contents(sql: Sql) -> int:
    return len(sql("SELECT email_id FROM mail_service.email_payloads"))


def test_content_goes_after_its_days_and_not_before(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt, data={"name": "Ada"}, reply_to=("help@example.com",))
    send_all(rt)
    sql.advance(rt.settings.retain_content_days * DAY - 60)
    assert retain.run(rt).contents == 0
    sql.advance(120)
    assert retain.run(rt).contents == 1
    assert contents(sql) == 0
    assert look(rt, email).email.state == "submitted"
    assert retain.run(rt).contents == 0


def test_content_of_mail_that_may_still_go_out_stays_however_old(rt: Runtime, sql: Sql) -> None:
    write_email(rt, "doubtful", data={"name": "Ada"})
    take_one(rt)
    write_email(rt, "pending", data={"name": "Ada"})
    sql.advance(rt.settings.retain_content_days * DAY * 2)
    reconcile.sweep(rt)
    assert retain.run(rt).contents == 0
    assert contents(sql) == 2


def test_a_repeated_dedup_key_is_still_recognised(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt, data={"name": "Ada"})
    send_all(rt)
    sql.advance(rt.settings.retain_content_days * DAY + 1)
    retain.run(rt)
    assert write_email(rt, data={"name": "Ada"}).email.id == email.email.id
    with pytest.raises(Conflict):
        write_email(rt, data={"name": "Bob"})


def test_what_has_no_content_any_more_is_not_requeued(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = write_email(rt)
    mailer.answers(Refused(error_class="rejected"))
    send_all(rt)
    sql.advance(rt.settings.retain_content_days * DAY + 1)
    retain.run(rt)
    with pytest.raises(Conflict, match="erased"):
        decide.requeue(rt, email.email.id, reason="mended", not_after=None, by="x")


def test_a_requeued_email_keeps_its_content_although_it_once_ended_long_ago(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = write_email(rt)
    mailer.answers(Refused(error_class="rejected"))
    send_all(rt)
    sql.advance(rt.settings.retain_content_days * DAY + 1)
    decide.requeue(rt, email.email.id, reason="mended", not_after=None, by="x")
    assert retain.run(rt).contents == 0
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


def test_the_sweep_retains_once_an_hour(rt: Runtime, sql: Sql) -> None:
    reconcile.sweep(rt)
    write_email(rt, data={"name": "Ada"})
    send_all(rt)
    sql("UPDATE mail_service.email_outbox SET finished_at = finished_at - interval '31 days'")
    reconcile.sweep(rt)
    assert contents(sql) == 1, "it was looked at a moment ago"
    sql.advance(retain.HOUR + 1)
    reconcile.sweep(rt)
    assert contents(sql) == 0


def statuses(sql: Sql) -> list[str]:
    rows = sql("SELECT status::text AS s FROM mail_service.ses_events ORDER BY 1")
    return [row["s"] for row in rows]


def test_events_that_found_no_call_go_after_their_days_and_the_others_stay(
    rt: Runtime, sql: Sql
) -> None:
    write_email(rt)
    (claim,) = send_all(rt)
    bring(rt, ses_event("Delivery", tag=str(claim.row.attempt_id)))
    bring(rt, "no event at all")
    bring(rt, ses_event("Send", message_id="of-another-application"))
    sql.advance(ingest_day := 86_400 + 1)
    reconcile.sweep(rt)
    assert statuses(sql) == ["foreign", "matched", "unparseable"]
    sql.advance((rt.settings.retain_unmatched_days - 1) * DAY - 60 - (ingest_day - DAY))
    bring(rt, ses_event("Send", message_id="of-another-application-too"))
    assert retain.run(rt).strangers == 0
    sql.advance(120)
    assert retain.run(rt).strangers == 1
    assert statuses(sql) == ["matched", "unmatched", "unparseable"]
    # Unmatched still, because no sweep has run since: its days count all the same.
    sql.advance(rt.settings.retain_unmatched_days * DAY)
    assert retain.run(rt).strangers == 1
    assert statuses(sql) == ["matched", "unparseable"]


def test_payloads_of_events_go_after_their_days_and_what_was_read_stays(
    rt: Runtime, sql: Sql
) -> None:
    email = write_email(rt)
    (claim,) = send_all(rt)
    event = ses_event("Delivery", tag=str(claim.row.attempt_id))
    bring(rt, event, "once")
    bring(rt, "no event at all")
    sql.advance(rt.settings.retain_event_days * DAY - 60)
    assert retain.run(rt).payloads == 0
    sql.advance(120)
    assert retain.run(rt).payloads == 2
    assert retain.run(rt).payloads == 0
    assert sql("SELECT id FROM mail_service.ses_events WHERE payload IS NOT NULL") == []
    assert statuses(sql) == ["matched", "unparseable"]
    assert look(rt, email).recipients[0].delivered_at is not None
    assert bring(rt, event, "once") is ingest.Taken.DUPLICATE


def test_addresses_go_after_their_days_and_their_hash_stays(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt, to=("ada@example.com", "bob@example.com"))
    waiting = write_email(rt, "doubtful")
    send_all(rt, 1)
    take_one(rt)
    sql.advance(rt.settings.retain_address_days * DAY - 60)
    assert retain.run(rt).addresses == 0
    sql.advance(120)
    assert retain.run(rt).addresses == 2
    assert retain.run(rt).addresses == 0
    assert [one.address for one in look(rt, email).recipients] == [None, None]
    assert [one.address for one in look(rt, waiting).recipients] == ["ada@example.com"]
    wanted = observe.Filter(address_hash=observe.address_hash(rt, "recipient", "bob@example.com"))
    assert [one.email.id for one in observe.list_emails(rt, wanted, after=None, limit=5).items] == [
        email.email.id
    ]


def test_content_never_outlives_the_addresses_of_its_email(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(RETAIN_ADDRESS_DAYS="2", RETAIN_CONTENT_DAYS="30")
    email = write_email(rt, data={"name": "Ada"})
    mailer.answers(Refused(error_class="rejected"))
    send_all(rt)
    sql.advance(2 * DAY + 1)
    assert retain.run(rt).contents == 1
    with pytest.raises(Conflict, match="erased"):
        decide.requeue(rt, email.email.id, reason="mended", not_after=None, by="x")


def test_no_table_holds_an_address_or_content_once_all_days_are_over(rt: Runtime, sql: Sql) -> None:
    who, name = "ada.byron@example.com", "Ada Byron"
    write_email(rt, to=(who, f"X.{who}"), data={"name": name}, reply_to=(f"r.{who}",))
    (claim,) = send_all(rt)
    tag = str(claim.row.attempt_id)
    for kind in ("Delivery", "Bounce", "Complaint", "DeliveryDelay", "Open"):
        bring(rt, ses_event(kind, tag=tag, recipients=(who,)))
    bring(rt, ses_event("Bounce", message_id="of-another-application", recipients=(who,)))
    bring(rt, f"no event at all, about {who}")
    sql.advance(rt.settings.retain_address_days * DAY + 1)
    reconcile.sweep(rt)
    retain.run(rt)
    held = {
        table
        for table, rows in sql.dump().items()
        if "byron" in json.dumps(rows, default=str).lower()
    }
    # A suppression outlasts all days: it stands until a person lifts it.
    assert held == {"suppressions"}


def test_counters_of_hours_long_past_go(rt: Runtime, sql: Sql) -> None:
    bring(rt, "no event at all")
    sql("INSERT INTO mail_service.webhook_rejections VALUES (mail_service.clock(), 'type', 1)")
    sql.advance(retention.COUNTED_DAYS * DAY - 7200)
    assert retain.run(rt).counters == 0
    sql.advance(10_000)
    bring(rt, "no event at all")
    assert retain.run(rt).counters == 2
    assert len(sql("SELECT hour FROM mail_service.payload_allowances")) == 1


def test_of_syncs_long_past_the_last_that_ended_well_stays(rt: Runtime, sql: Sql) -> None:
    def ended(n: int, scope: str, error: str | None) -> None:
        sql(
            "INSERT INTO mail_service.suppression_syncs (id, scope, since, started_by, alive_until,"
            " finished_at, error) VALUES (%s, %s, CASE WHEN %s = 'recent' THEN now() END, 'test',"
            " now(), mail_service.clock(), %s)",
            *(UUID(int=n), scope, scope, error),
        )
        sql.advance(3600)

    for n, (scope, error) in enumerate(
        [("full", None), ("full", None), ("recent", None), ("recent", None), ("full", "denied")], 1
    ):
        ended(n, scope, error)
    sql.advance(retention.COUNTED_DAYS * DAY)
    ended(6, "full", "denied")
    retain.run(rt)
    left = sql("SELECT id FROM mail_service.suppression_syncs ORDER BY id")
    assert [row["id"].int for row in left] == [2, 4, 6]


def test_retention_goes_on_where_it_stopped_and_overlooks_nothing(
    rt: Runtime, sql: Sql, database_url: str
) -> None:
    """Far more than a batch, many that ended in one moment, some held by somebody meanwhile."""
    sql(
        """
        INSERT INTO mail_service.email_outbox (id, dedup_key, intent_hash, template,
            template_checksum, sender, state, next_attempt_at, finished_at)
        SELECT gen_random_uuid(), 'k' || n, '', 't', 'c', 's', 'cancelled', NULL,
               mail_service.clock() + make_interval(hours => n / 1500)
        FROM generate_series(1, 7000) n
        """
    )
    sql(
        "INSERT INTO mail_service.email_payloads (email_id, data) "
        "SELECT id, '{}' FROM mail_service.email_outbox"
    )
    sql.advance(rt.settings.retain_content_days * DAY + 3600 * 2)
    with rt.db.transaction() as tx:
        held = tx.run(
            "SELECT FROM mail_service.email_outbox WHERE dedup_key LIKE 'k%%77' FOR UPDATE"
        )
        done = retain.run(rt).contents
        assert 0 < done < 7000
        assert held > 0
    sql.advance(3600)
    done += retain.run(rt).contents
    sql.advance(3600 * 3)
    done += retain.run(rt).contents
    assert (done, contents(sql)) == (7000, 0)
