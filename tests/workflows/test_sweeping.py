"""Between two whole sweeps, one statement says whether there is anything to do; it must miss nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mail_service.domain.outcomes import Unknown
from mail_service.domain.states import OnAmbiguous
from mail_service.ports import SendingQuota
from mail_service.runtime import Runtime
from mail_service.store import sweeping
from mail_service.workflows import operate, reconcile, record
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, look, send_all, ses_event, sign_up, take_one, write_email

WHOLE = "SELECT at FROM mail_service.heartbeats WHERE name = 'whole sweep'"
BEGUN = "SELECT at FROM mail_service.heartbeats WHERE name = 'sweep'"


@pytest.fixture
def swept(rt: Runtime, sql: Sql) -> Runtime:
    """A runtime whose last whole sweep was in the distant future, so that none is due in a test."""
    reconcile.sweep(rt)
    sql(
        "UPDATE mail_service.heartbeats SET at = at + interval '99 days' WHERE name = 'whole sweep'"
    )
    return rt


def in_doubt(rt: Runtime, mailer: ScriptedMailer, on_ambiguous: OnAmbiguous) -> str:
    """Have an email's call time out; gives the call's tag."""
    mailer.answers(Unknown(error_class="read_timeout"))
    write_email(rt, "doubt", on_ambiguous=on_ambiguous)
    (claim,) = send_all(rt)
    return str(claim.row.attempt_id)


def test_where_nothing_is_to_be_done_nothing_but_the_look_is_done(swept: Runtime, sql: Sql) -> None:
    send_all(swept)
    whole, begun = sql.one(WHOLE), sql.one(BEGUN)
    sql.advance(5)
    found = reconcile.sweep(swept)
    assert found is not None
    assert not found.found_something
    assert not found.list_changes
    assert sql.one(WHOLE) == whole
    assert sql.one(BEGUN) > begun


def test_an_expired_lease_is_found(swept: Runtime, sql: Sql) -> None:
    email = sign_up(swept)
    take_one(swept)
    sql.advance(swept.settings.lease_seconds + 1)
    reconcile.sweep(swept)
    assert look(swept, email).email.state == "ambiguous"


def test_doubt_that_evidence_has_ended_is_found(
    swept: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    tag = in_doubt(swept, mailer, OnAmbiguous.HOLD)
    sql(
        "UPDATE mail_service.send_attempts SET state = 'accepted', provider_message_id = 'm-1',"
        " finished_at = mail_service.clock() WHERE request_tag = %s",
        tag,
    )
    found = reconcile.sweep(swept)
    assert found is not None
    assert found.doubts_resolved == 1


def test_doubt_that_policy_may_end_is_found(
    swept: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    in_doubt(swept, mailer, OnAmbiguous.RESEND)
    sql.advance(swept.settings.reconcile_after_seconds + 1)
    found = reconcile.sweep(swept)
    assert found is not None
    assert found.policy_resends == 1


@pytest.mark.parametrize("known_by", ["tag", "MessageId"])
def test_an_event_that_missed_its_email_is_found(swept: Runtime, sql: Sql, known_by: str) -> None:
    sign_up(swept)
    ended = call(swept, take_one(swept))
    tag = str(ended.row.attempt_id) if known_by == "tag" else None
    bring(swept, ses_event("Delivery", message_id="message-1"))
    record.results(swept, [ended])
    sql(
        "UPDATE mail_service.ses_events SET status = 'unmatched', attempt_id = NULL,"
        " request_tag = %s, provider_message_id = %s",
        tag,
        None if tag else "message-1",
    )
    found = reconcile.sweep(swept)
    assert found is not None
    assert found.events_matched == 1


def test_an_event_of_somebody_else_is_nothing_to_do(swept: Runtime, sql: Sql) -> None:
    bring(swept, ses_event("Delivery", message_id="another-application"))
    whole = sql.one(WHOLE)
    reconcile.sweep(swept)
    assert sql.one(WHOLE) == whole


def test_a_change_for_sess_list_is_told_of_while_it_waits(swept: Runtime, sql: Sql) -> None:
    operate.suppress(swept, address="ada@example.com", note=None, by="test")
    found = reconcile.sweep(swept)
    assert found is not None
    assert found.list_changes
    sql("UPDATE mail_service.suppressions SET ses_next_at = ses_next_at + interval '1 hour'")
    found = reconcile.sweep(swept)
    assert found is not None
    assert not found.list_changes


def test_a_subscription_that_waits_for_its_confirmation_is_found(swept: Runtime, sql: Sql) -> None:
    sql(
        "INSERT INTO mail_service.sns_subscriptions (id, topic_arn, sns_message_id, token, offered_at)"
        " VALUES (gen_random_uuid(), 'arn:aws:sns:eu-west-1:123456789012:ses-events', 'm', 't',"
        " mail_service.clock())"
    )
    asked: list[str] = []

    def confirm(topic_arn: str, token: str) -> str:
        asked.append(token)
        return f"{topic_arn}:sub"

    reconcile.sweep(replace(swept, confirm_subscription=confirm))
    assert asked == ["t"]


def test_a_rate_that_was_set_anew_is_found(
    swept: Runtime, runtime_of: Callable[..., Runtime], sql: Sql
) -> None:
    reconcile.sweep(runtime_of(SEND_RATE="7"))
    assert sql.one("SELECT per_second FROM mail_service.send_rate") == 7


@pytest.mark.parametrize(("every", "whole_after"), [("5", 60), ("1", 12), ("120", 60)])
def test_what_does_not_press_comes_with_a_whole_sweep_a_minute_later_at_most(
    runtime_of: Callable[..., Runtime], sql: Sql, every: str, whole_after: float
) -> None:
    rt = runtime_of(SWEEP_SECONDS=every)
    reconcile.sweep(rt)
    done: list[bool] = []
    for seconds in (whole_after - 2, 3):
        before = sql.one(WHOLE)
        sql.advance(seconds)
        reconcile.sweep(rt)
        done.append(sql.one(WHOLE) > before)
    assert done == [False, True]


def test_a_whole_sweep_that_broke_off_is_done_again_by_the_next_one(rt: Runtime, sql: Sql) -> None:
    def fail() -> SendingQuota:
        raise RuntimeError("in the middle of a sweep")

    broken = replace(rt, read_quota=fail)
    with pytest.raises(RuntimeError):
        reconcile.sweep(broken)
    assert sql(WHOLE) == []
    reconcile.sweep(rt)
    assert len(sql(WHOLE)) == 1


def test_while_somebody_else_has_the_right_to_sweep_none_is_done_or_recorded(
    rt: Runtime, sql: Sql
) -> None:
    with rt.db.transaction() as tx:
        assert sweeping.take_sweep(tx)
        assert reconcile.sweep(rt) is None
    assert sql(BEGUN) == []
    assert reconcile.sweep(rt) is not None
