"""Replay: stored events read again by today's reader, with the end they would have had at once."""

import json
from typing import Any

import pytest

from mail_service.domain.events import EventStatus
from mail_service.domain.suppression import ReleaseRule
from mail_service.errors import InvalidFields
from mail_service.runtime import Runtime
from mail_service.workflows import operate, reconcile
from mail_service.workflows.replay import BATCH, Replayed, replay
from tests.conftest import Sql
from tests.steps import bring, look, send_all, ses_event, sign_up, write_email


def one_submitted(rt: Runtime) -> tuple[Any, str]:
    email = sign_up(rt)
    (claim,) = send_all(rt)
    return email, str(claim.row.attempt_id)


def as_an_older_reader_left_it(sql: Sql, status: str) -> None:
    """Make the stored events what a reader that understood less would have stored."""
    sql(
        "UPDATE mail_service.ses_events SET status = %s::mail_service.event_status, kind = 'other',"
        " attempt_id = NULL, facts = '[]', provider_message_id = NULL, request_tag = NULL",
        status,
    )
    sql(
        "UPDATE mail_service.email_recipients SET bounced_at = NULL, bounce_type = NULL,"
        " bounce_subtype = NULL"
    )
    sql("TRUNCATE mail_service.suppressions CASCADE")


def end(sql: Sql) -> dict[str, Any]:
    """Give what events lead to; a suppression that was made anew has another id and time."""
    tables = sql.dump()
    names = ("ses_events", "email_recipients", "email_outbox", "send_attempts", "email_transitions")
    return {name: tables[name] for name in names} | {
        "suppressions": [
            (row["address"], row["reason"], row["source"], row["released_at"])
            for row in tables["suppressions"]
        ]
    }


@pytest.mark.parametrize("status", ["unparseable", "unmatched", "foreign"])
def test_what_a_better_reader_understands_has_the_effect_it_would_have_had_at_once(
    rt: Runtime, sql: Sql, status: str
) -> None:
    email, tag = one_submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag))
    at_once = end(sql)
    as_an_older_reader_left_it(sql, status)
    assert look(rt, email).recipients[0].status == "submitted"
    done = replay(rt)
    assert (done.read, done.became) == (1, {"matched": 1})
    assert end(sql) == at_once


def test_a_second_replay_changes_nothing(rt: Runtime, sql: Sql) -> None:
    _, tag = one_submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag))
    bring(rt, "no event")
    bring(rt, ses_event("Bounce", message_id="foreign"))
    as_an_older_reader_left_it(sql, "unparseable")
    first = replay(rt)
    assert first.became == {"matched": 1, "unmatched": 1}
    before = sql.dump()
    assert replay(rt).became == {}
    assert replay(rt, (EventStatus.MATCHED,)).became == {}
    assert sql.dump() == before


def test_an_event_whose_payload_is_gone_is_matched_by_its_stored_facts(
    rt: Runtime, sql: Sql
) -> None:
    email, _ = one_submitted(rt)
    bring(rt, ses_event("Bounce", message_id="m-other"))
    sql("UPDATE mail_service.ses_events SET payload = NULL, status = 'foreign'")
    sql("UPDATE mail_service.send_attempts SET provider_message_id = 'm-other'")
    assert replay(rt).became == {"matched": 1}
    assert look(rt, email).recipients[0].status == "bounced"


def test_a_matched_event_is_read_again_when_asked_for_and_keeps_its_call(
    rt: Runtime, sql: Sql
) -> None:
    email, tag = one_submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag))
    sql("UPDATE mail_service.ses_events SET facts = '[]'")
    sql("UPDATE mail_service.email_recipients SET bounced_at = NULL, bounce_type = NULL")
    assert replay(rt).read == 0
    assert replay(rt, (EventStatus.MATCHED,)).became == {"read_otherwise": 1}
    seen = look(rt, email)
    assert (seen.recipients[0].status, len(seen.events)) == ("bounced", 1)


def test_an_event_given_up_stays_so_where_nothing_new_is_known(rt: Runtime, sql: Sql) -> None:
    bring(rt, ses_event("Bounce", message_id="foreign"))
    sql.advance(25 * 3600)
    reconcile.sweep(rt)
    assert replay(rt).became == {}
    assert sql.one("SELECT status::text FROM mail_service.ses_events") == "foreign"


def test_quarantined_events_are_counted_and_not_forced(rt: Runtime, sql: Sql) -> None:
    _, tag = one_submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag, message_id="another"))
    bring(rt, ses_event("Bounce", message_id="foreign"))
    done = replay(rt)
    assert (done.total, done.read, done.quarantined) == (1, 1, 1)
    with pytest.raises(InvalidFields):
        replay(rt, (EventStatus.QUARANTINED,))
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 0


def test_a_tag_that_was_not_read_and_belongs_to_another_call_quarantines(
    rt: Runtime, sql: Sql
) -> None:
    _, tag = one_submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag, message_id="another"))
    as_an_older_reader_left_it(sql, "foreign")
    assert replay(rt).became == {"quarantined": 1}
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 0


def test_a_replayed_old_bounce_does_not_undo_a_later_release(rt: Runtime, sql: Sql) -> None:
    email, tag = one_submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag, at="2026-11-01T10:00:00.000Z"))
    (row,) = sql("SELECT id FROM mail_service.suppressions")
    operate.release(
        rt,
        row["id"],
        rule=ReleaseRule.ADDRESS_CONFIRMED,
        reason="answered",
        confirmed=False,
        by="test",
    )
    sql("UPDATE mail_service.ses_events SET status = 'unparseable', attempt_id = NULL")
    assert replay(rt).became == {"matched": 1}
    assert look(rt, email).recipients[0].bounced_at is not None
    assert sql.one("SELECT count(*) FROM mail_service.suppressions WHERE released_at IS NULL") == 0


@pytest.mark.parametrize("status", ["matched", "unmatched", "unparseable", "foreign"])
@pytest.mark.parametrize("kind", ["Bounce", "Complaint"])
def test_an_event_that_its_provider_dated_in_the_future_is_as_old_as_its_arrival(
    rt: Runtime, sql: Sql, status: str, kind: str
) -> None:
    """Whenever it is looked at again, a release after its arrival covers it, and none before."""
    email, tag = one_submitted(rt)
    bring(rt, ses_event(kind, tag=tag, at="2999-01-01T00:00:00.000Z"))
    (row,) = sql("SELECT id, released_at FROM mail_service.suppressions")
    assert row["released_at"] is None
    operate.release(
        rt,
        row["id"],
        rule=ReleaseRule.CONSENT_RENEWED,
        reason="asked for it",
        confirmed=True,
        by="test",
    )
    sql("UPDATE mail_service.email_recipients SET bounced_at = NULL, complained_at = NULL")
    if status != "matched":
        sql(
            "UPDATE mail_service.ses_events"
            " SET status = %s::mail_service.event_status, attempt_id = NULL",
            status,
        )
    if status == "unmatched":
        reconcile.sweep(rt)
    else:
        replay(rt, [EventStatus(status)])
    facts = look(rt, email).recipients[0]
    assert (facts.bounced_at or facts.complained_at) is not None, "it was looked at again"
    assert sql.one("SELECT count(*) FROM mail_service.suppressions WHERE released_at IS NULL") == 0
    bring(rt, ses_event(kind, tag=tag, at="2999-01-01T00:00:00.000Z"))
    assert sql.one("SELECT count(*) FROM mail_service.suppressions WHERE released_at IS NULL") == 1


def test_every_event_is_read_once_over_several_batches_and_the_caller_is_told(
    rt: Runtime, sql: Sql
) -> None:
    email = write_email(rt, to=("ada@example.com",))
    (claim,) = send_all(rt)
    template = json.dumps(ses_event("Delivery", tag=str(claim.row.attempt_id)))
    number = 2 * BATCH + 3
    # All of one moment: the place in the order is a time and an id.
    sql(
        "INSERT INTO mail_service.ses_events"
        " (id, topic_arn, sns_message_id, kind, status, occurred_at, payload)"
        " SELECT gen_random_uuid(), 'topic', n::text, 'other', 'unparseable', now(), %s"
        " FROM generate_series(1, %s) n",
        template,
        number,
    )
    told: list[Replayed] = []
    done = replay(rt, tell=told.append)
    assert (done.total, done.read, done.became) == (number, number, {"matched": number})
    assert [one.read for one in told] == [BATCH, 2 * BATCH, number]
    assert len(look(rt, email).events) == number
