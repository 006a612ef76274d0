"""Content goes after its days, and what was promised about the email stays."""

import pytest

from mail_service.domain.outcomes import Refused
from mail_service.errors import Conflict
from mail_service.runtime import Runtime
from mail_service.workflows import decide, reconcile, retain
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import look, send_all, take_one, write_email

DAY = 86_400


def contents(sql: Sql) -> int:
    return len(sql("SELECT email_id FROM mail_service.email_payloads"))


def test_content_goes_after_its_days_and_not_before(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt, data={"name": "Ada"}, reply_to=("help@example.com",))
    send_all(rt)
    sql.advance(rt.settings.retain_content_days * DAY - 60)
    assert retain.run(rt) == 0
    sql.advance(120)
    assert retain.run(rt) == 1
    assert contents(sql) == 0
    assert look(rt, email).email.state == "submitted"
    assert retain.run(rt) == 0


def test_content_of_mail_that_may_still_go_out_stays_however_old(rt: Runtime, sql: Sql) -> None:
    write_email(rt, "doubtful", data={"name": "Ada"})
    take_one(rt)
    write_email(rt, "pending", data={"name": "Ada"})
    sql.advance(rt.settings.retain_content_days * DAY * 2)
    reconcile.sweep(rt)
    assert retain.run(rt) == 0
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
    assert retain.run(rt) == 0
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
