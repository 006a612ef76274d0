"""Events: stored once, attached by tag or MessageId alone, merged in any order, never undone."""

import itertools
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mail_service.domain.outcomes import Refused, Unknown
from mail_service.domain.suppression import ReleaseRule
from mail_service.errors import MalformedEnvelope, NotGenuine, Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import dispatch, ingest, observe, operate, reconcile, record
from mail_service.workflows.ingest import Taken
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import (
    TOPIC,
    bring,
    call,
    look,
    send_all,
    ses_event,
    sign_up,
    take_one,
    with_envelope,
    write_email,
)


def submitted(
    rt: Runtime, *, to: tuple[str, ...] = ("ada@example.com",), key: str = "order-1"
) -> tuple[Any, str]:
    """Give a submitted email and its tag."""
    email = write_email(rt, key, to=to)
    (claim,) = send_all(rt)
    return email, str(claim.row.attempt_id)


@pytest.mark.parametrize(
    ("kind", "detail", "status", "suppressed"),
    [
        ("Send", {}, "submitted", None),
        ("Delivery", {}, "delivered", None),
        ("DeliveryDelay", {}, "delayed", None),
        ("Bounce", {}, "bounced", "bounce"),
        ("Bounce", {"bounceType": "Transient"}, "bounced", None),
        ("Bounce", {"bounceType": "Undetermined"}, "bounced", None),
        ("Bounce", {"bounceSubType": "OnAccountSuppressionList"}, "bounced", "bounce"),
        ("Complaint", {"complaintFeedbackType": "abuse"}, "complained", "complaint"),
        ("Complaint", {}, "complained", "complaint"),
        ("Complaint", {"complaintFeedbackType": "not-spam"}, "submitted", None),
        ("Complaint", {"complaintFeedbackType": "auth-failure"}, "submitted", None),
        ("Reject", {"reason": "Bad content"}, "rejected", None),
        ("Rendering Failure", {}, "rejected", None),
        ("Open", {}, "submitted", None),
    ],
)
def test_each_kind_has_its_fact_and_its_suppression(
    rt: Runtime, sql: Sql, kind: str, detail: dict[str, Any], status: str, suppressed: str | None
) -> None:
    email, tag = submitted(rt)
    assert bring(rt, ses_event(kind, tag=tag, **detail)) is Taken.STORED
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status) == ("submitted", status)
    assert [
        row["reason"]
        for row in sql(
            "SELECT reason::text FROM mail_service.suppressions WHERE released_at IS NULL"
        )
    ] == ([suppressed] if suppressed else [])


def test_an_event_is_matched_by_its_message_id_where_it_has_no_tag(rt: Runtime) -> None:
    email, _ = submitted(rt)
    bring(rt, ses_event("Delivery", message_id="message-1"))
    assert look(rt, email).recipients[0].status == "delivered"


def test_an_event_before_the_message_id_is_saved_is_matched_at_finalise(
    rt: Runtime, sql: Sql
) -> None:
    email = sign_up(rt)
    ended = call(rt, take_one(rt))
    bring(rt, ses_event("Bounce", message_id="message-1"))
    assert sql.one("SELECT status::text FROM mail_service.ses_events") == "unmatched"
    record.results(rt, [ended])
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status, len(seen.events)) == (
        "submitted",
        "bounced",
        1,
    )
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 1


def test_an_unmatched_event_is_matched_by_the_sweep_when_its_id_is_there(
    rt: Runtime, sql: Sql
) -> None:
    email, _ = submitted(rt)
    bring(rt, ses_event("Delivery", message_id="m-other"))
    sql("UPDATE mail_service.send_attempts SET provider_message_id = 'm-other'")
    reconcile.sweep(rt)
    assert look(rt, email).recipients[0].status == "delivered"


def test_a_foreign_event_is_still_matched_when_its_id_turns_out_ours(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = sign_up(rt)
    ended = call(rt, take_one(rt))
    bring(rt, ses_event("Delivery", message_id="message-1"))
    sql.advance(25 * 3600)
    reconcile.sweep(rt)
    assert sql.one("SELECT status::text FROM mail_service.ses_events") == "foreign"
    record.results(rt, [ended])
    assert look(rt, email).recipients[0].status == "delivered"


@pytest.mark.parametrize("waited", [0, 25 * 3600])
def test_a_bounce_that_waited_for_its_id_is_matched_when_another_event_brings_the_id(
    rt: Runtime, sql: Sql, waited: float
) -> None:
    """The worker died before it saved the MessageId; a tagged event saves it, however much later."""
    email = sign_up(rt)
    claim = take_one(rt)
    call(rt, claim)
    bring(rt, ses_event("Bounce", message_id="message-1"))
    sql.advance(rt.settings.lease_seconds + 1 + waited)
    reconcile.sweep(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="message-1"))
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status, len(seen.events)) == (
        "submitted",
        "bounced",
        2,
    )
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 1


def test_the_first_event_that_names_the_message_id_of_an_accepted_call_saves_it(
    rt: Runtime, sql: Sql
) -> None:
    """An event without one proved the call; a bounce that has nothing else still waits for it."""
    email = sign_up(rt)
    claim = take_one(rt)
    call(rt, claim)
    tag = str(claim.row.attempt_id)
    bring(rt, ses_event("Send", tag=tag, message_id=None))
    bring(rt, ses_event("Bounce", message_id="message-1"))
    assert look(rt, email).recipients[0].status != "bounced"
    bring(rt, ses_event("Delivery", tag=tag, message_id="message-1"))
    assert sql.one("SELECT provider_message_id FROM mail_service.send_attempts") == "message-1"
    assert look(rt, email).recipients[0].status == "bounced"
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 1


def test_one_sns_message_at_once_on_eight_workers_is_one_row_and_one_effect(
    rt: Runtime, sql: Sql
) -> None:
    _, tag = submitted(rt)
    event = ses_event("Bounce", tag=tag)
    with ThreadPoolExecutor(8) as pool:
        taken = list(
            pool.map(lambda _: bring(rt, event, "11111111-1111-4111-8111-111111111111"), range(8))
        )
    assert sorted(taken) == sorted([Taken.STORED] + [Taken.DUPLICATE] * 7)
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 1
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 1


def test_the_same_fact_under_another_sns_id_changes_nothing(rt: Runtime, sql: Sql) -> None:
    _, tag = submitted(rt)
    event = ses_event("Bounce", tag=tag)
    bring(rt, event)
    before = sql.dump()
    bring(rt, event)
    after = sql.dump()
    for table in ("email_recipients", "suppressions", "email_outbox", "email_transitions"):
        assert after[table] == before[table]


EVENTS = [
    ("Send", {}),
    ("Delivery", {"at": "2026-11-29T10:00:05.000Z"}),
    ("Delivery", {"at": "2026-11-29T10:00:04.000Z"}),
    (
        "Bounce",
        {"at": "2026-11-29T10:00:06.000Z", "bounceType": "Transient", "bounceSubType": "General"},
    ),
    ("Bounce", {"at": "2026-11-29T10:00:09.000Z"}),
    ("Bounce", {"at": "2026-11-29T10:00:09.000Z", "bounceSubType": "NoEmail"}),
    ("Complaint", {"at": "2026-11-29T10:01:00.000Z", "complaintFeedbackType": "not-spam"}),
    ("Complaint", {"at": "2026-11-29T10:02:00.000Z", "complaintFeedbackType": "abuse"}),
    ("Complaint", {"at": "2026-11-29T10:02:00.000Z"}),
    ("DeliveryDelay", {}),
]


def facts_of(sql: Sql) -> Any:
    return (
        sql(
            "SELECT address, delivered_at, bounced_at, bounce_type, bounce_subtype, complained_at,"
            " complaint_type, delayed_at FROM mail_service.email_recipients"
        ),
        sql("SELECT reason::text FROM mail_service.suppressions"),
        sql("SELECT state::text FROM mail_service.email_outbox"),
    )


@pytest.mark.parametrize("seed", range(6))
def test_any_order_and_repetition_of_events_gives_the_same_facts(
    rt: Runtime, sql: Sql, seed: int
) -> None:
    _, tag = submitted(rt)
    order = random.Random(seed)
    shuffled = [*EVENTS, *order.choices(EVENTS, k=4)]
    order.shuffle(shuffled)
    for kind, detail in shuffled:
        bring(rt, ses_event(kind, tag=tag, **detail))
    recipients, suppressions, emails = facts_of(sql)
    (row,) = recipients
    assert row["delivered_at"].isoformat() == "2026-11-29T10:00:04+00:00"
    assert (row["bounce_type"], row["bounce_subtype"], row["bounced_at"].second) == (
        "Permanent",
        "General",
        9,
    )
    assert (row["complaint_type"], row["complained_at"].minute) == (None, 2)
    assert (suppressions, emails) == ([{"reason": "complaint"}], [{"state": "submitted"}])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_bounce_a_delivery_and_the_finalise_commute(
    rt: Runtime, sql: Sql, order: tuple[int, ...]
) -> None:
    sign_up(rt)
    ended = call(rt, take_one(rt))
    tag = str(ended.row.attempt_id)
    steps = [
        lambda: bring(rt, ses_event("Bounce", tag=tag)),
        lambda: bring(rt, ses_event("Delivery", message_id="message-1")),
        lambda: record.results(rt, [ended]),
    ]
    for n in order:
        steps[n]()
    reconcile.sweep(rt)
    recipients, suppressions, emails = facts_of(sql)
    assert recipients[0]["delivered_at"] is not None
    assert recipients[0]["bounce_type"] == "Permanent"
    assert (suppressions, emails) == ([{"reason": "bounce"}], [{"state": "submitted"}])


def test_an_event_and_the_finalise_at_once_leave_both_effects(rt: Runtime, sql: Sql) -> None:
    emails = [write_email(rt, f"order-{n}", to=(f"a{n}@example.com",)) for n in range(30)]
    ended = [call(rt, c) for c in dispatch.take(rt, 50)]

    def bounce(e: Any) -> None:
        bring(
            rt,
            ses_event(
                "Bounce",
                tag=str(e.row.attempt_id),
                message_id=e.result.provider_message_id,
                recipients=(e.row.recipients[0][1],),
            ),
        )

    def finalise(e: Any) -> None:
        left = [e]
        while left:
            left = record.results(rt, left)

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(work, e) for e in ended for work in (bounce, finalise)]
        for job in jobs:
            job.result()
    seen = [look(rt, e) for e in emails]
    assert {(s.email.state, s.recipients[0].status) for s in seen} == {("submitted", "bounced")}
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 30


def test_only_recipients_of_our_own_call_are_touched(rt: Runtime, sql: Sql) -> None:
    operate.suppress(rt, address="left-out@example.com", note=None, by="test")
    email, tag = submitted(rt, to=("ada@example.com", "left-out@example.com"))
    bring(
        rt,
        ses_event(
            "Complaint",
            tag=tag,
            recipients=("victim@example.com", "left-out@example.com", "ada@example.com"),
        ),
    )
    assert [r.complained_at is not None for r in look(rt, email).recipients] == [True, False]
    assert {
        row["address"]: row["reason"]
        for row in sql("SELECT address, reason::text FROM mail_service.suppressions")
    } == {
        "ada@example.com": "complaint",
        "left-out@example.com": "manual",
    }


def test_a_bounce_entry_that_says_delayed_gives_the_fact_and_no_suppression(
    rt: Runtime, sql: Sql
) -> None:
    email, tag = submitted(rt)
    event = ses_event("Bounce", tag=tag)
    event["bounce"]["bouncedRecipients"][0]["action"] = "delayed"
    bring(rt, event)
    assert look(rt, email).recipients[0].status == "bounced"
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 0


def test_tag_and_message_id_that_disagree_are_quarantined(rt: Runtime, sql: Sql) -> None:
    first, tag = submitted(rt)
    second, _ = submitted(rt, key="order-2")
    for event in (
        ses_event("Bounce", tag=tag, message_id="message-2"),
        ses_event("Bounce", tag=tag, message_id="message-unknown"),
        ses_event("Bounce", tag="00000000-0000-4000-8000-000000000000", message_id="message-1"),
    ):
        bring(rt, event)
    assert sql.one("SELECT count(*) FROM mail_service.ses_events WHERE status = 'quarantined'") == 3
    assert {look(rt, e).recipients[0].status for e in (first, second)} == {"submitted"}
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 0


def test_an_event_with_a_message_id_saved_elsewhere_proves_nothing_about_a_doubtful_call(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    submitted(rt)
    doubtful = write_email(rt, "order-2")
    mailer.answers(Unknown(error_class="read_timeout"))
    (claim,) = send_all(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="message-1"))
    assert look(rt, doubtful).email.state == "ambiguous"
    assert sql.one("SELECT status::text FROM mail_service.ses_events") == "quarantined"


def test_an_acceptance_beats_a_recorded_refusal(rt: Runtime, mailer: ScriptedMailer) -> None:
    email = sign_up(rt)
    mailer.answers(Refused(error_class="rejected"))
    (claim,) = send_all(rt)
    assert look(rt, email).email.state == "failed"
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id)))
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].state) == ("submitted", "accepted")


@pytest.mark.parametrize("tagged", [True, False])
def test_an_event_ends_a_doubt_that_was_left_open_although_the_call_is_known_to_be_accepted(
    rt: Runtime, sql: Sql, tagged: bool
) -> None:
    email, tag = submitted(rt)
    sql("UPDATE mail_service.email_outbox SET state = 'ambiguous', finished_at = NULL")
    bring(rt, ses_event("Delivery", tag=tag if tagged else None))
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status) == ("submitted", "delivered")


def test_events_only_strengthen_a_suppression_and_delivery_lifts_none(
    rt: Runtime, sql: Sql
) -> None:
    _, tag = submitted(rt)
    seen: list[str] = []
    for kind in ("Bounce", "Delivery", "Complaint", "Bounce", "Delivery"):
        bring(rt, ses_event(kind, tag=tag, at=f"2026-11-29T10:00:0{len(seen)}.000Z"))
        seen.append(
            sql.one("SELECT reason::text FROM mail_service.suppressions WHERE released_at IS NULL")
        )
    assert seen == ["bounce", "bounce", "complaint", "complaint", "complaint"]


@pytest.mark.parametrize(
    ("kind", "detail", "learned"),
    [
        ("Bounce", {"bounceSubType": "OnAccountSuppressionList"}, 1),
        ("Bounce", {"bounceSubType": "Suppressed"}, 1),
        ("Complaint", {"complaintSubType": "OnAccountSuppressionList"}, 1),
        ("Bounce", {"bounceSubType": "NoEmail"}, 0),
        ("Complaint", {"complaintFeedbackType": "abuse"}, 0),
    ],
)
@pytest.mark.parametrize("known_here", [False, True])
def test_what_only_sess_list_knew_is_counted_as_a_difference_between_the_two_lists(
    rt: Runtime, kind: str, detail: dict[str, Any], learned: int, known_here: bool
) -> None:
    _, tag = submitted(rt)
    if known_here:
        operate.suppress(rt, address="ada@example.com", note=None, by="test")
    bring(rt, ses_event(kind, tag=tag, **detail))
    drift = observe.figures(rt).suppression_drift
    assert drift.learned_last_day == (0 if known_here else learned)


def test_a_release_covers_evidence_dated_before_it(rt: Runtime, sql: Sql) -> None:
    email, tag = submitted(rt)
    bring(rt, ses_event("Bounce", tag=tag, at="2026-11-29T10:00:00.000Z"))
    row = sql("SELECT id FROM mail_service.suppressions")[0]["id"]
    operate.release(
        rt, row, rule=ReleaseRule.ADDRESS_CONFIRMED, reason="answered", confirmed=False, by="test"
    )
    bring(rt, ses_event("Bounce", tag=tag, at="2026-11-29T09:00:00.000Z"))
    assert look(rt, email).recipients[0].bounced_at is not None
    assert sql.one("SELECT count(*) FROM mail_service.suppressions WHERE released_at IS NULL") == 0
    bring(rt, ses_event("Bounce", tag=tag, at="2999-01-01T00:00:00.000Z"))
    (again,) = sql(
        "SELECT returns, address FROM mail_service.suppressions WHERE released_at IS NULL"
    )
    assert (again["returns"], again["address"]) == (1, "ada@example.com")


def test_a_genuine_text_that_is_no_event_is_kept_as_unparseable(rt: Runtime, sql: Sql) -> None:
    for text in ("", "[]", "not json", json.dumps({"a": "\0"}), "\0", "\ud800"):
        assert bring(rt, text) is Taken.STORED
    assert {row["status"] for row in sql("SELECT status::text FROM mail_service.ses_events")} == {
        "unparseable"
    }


def test_a_failed_commit_at_ingest_leaves_nothing_and_the_next_delivery_succeeds(
    rt: Runtime, sql: Sql
) -> None:
    email, tag = submitted(rt)
    sql("ALTER TABLE mail_service.suppressions ADD CONSTRAINT broken CHECK (false) NOT VALID")
    try:
        with pytest.raises(Exception, match="broken"):
            bring(rt, ses_event("Bounce", tag=tag), "11111111-1111-4111-8111-111111111111")
    finally:
        sql("ALTER TABLE mail_service.suppressions DROP CONSTRAINT broken")
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 0
    assert look(rt, email).recipients[0].bounced_at is None
    assert (
        bring(rt, ses_event("Bounce", tag=tag), "11111111-1111-4111-8111-111111111111")
        is Taken.STORED
    )


@pytest.mark.parametrize("error", [MalformedEnvelope("bad_json"), NotGenuine("bad_signature")])
def test_a_refused_request_changes_no_table_but_the_counter(
    rt: Runtime, sql: Sql, error: Exception
) -> None:
    submitted(rt)
    before = sql.dump()

    def refuse() -> Any:
        raise error

    for _ in range(3):
        with pytest.raises(type(error)):
            ingest.accept(with_envelope(rt, refuse), {}, b"")
    after = sql.dump()
    (counter,) = after.pop("webhook_rejections")
    assert counter["count"] == 3
    before.pop("webhook_rejections")
    assert after == before


def offer() -> Any:
    from datetime import UTC, datetime

    from mail_service.domain.events import SubscriptionOffer

    return SubscriptionOffer(
        topic_arn=TOPIC,
        sns_message_id="22222222-2222-4222-8222-222222222222",
        at=datetime(2026, 11, 29, tzinfo=UTC),
        token="secret-token",
    )


def test_a_subscription_is_confirmed_through_the_api_and_its_token_forgotten(
    runtime_of: Callable[..., Runtime], sql: Sql
) -> None:
    from dataclasses import replace

    asked: list[tuple[str, str]] = []

    def confirm(topic_arn: str, token: str) -> str:
        asked.append((topic_arn, token))
        return f"{topic_arn}:sub"

    rt = with_envelope(replace(runtime_of(), confirm_subscription=confirm), offer)
    for _ in range(2):
        assert ingest.accept(rt, {}, b"") is Taken.OFFER
    assert asked == [(TOPIC, "secret-token")]
    (row,) = sql("SELECT state::text, token, subscription_arn FROM mail_service.sns_subscriptions")
    assert row == {"state": "confirmed", "token": None, "subscription_arn": f"{TOPIC}:sub"}


def test_a_confirmation_that_failed_is_tried_again_by_the_sweep(rt: Runtime, sql: Sql) -> None:
    from dataclasses import replace

    def fail(topic_arn: str, token: str) -> str:
        raise Unavailable("SNS is away")

    ingest.accept(with_envelope(replace(rt, confirm_subscription=fail), offer), {}, b"")
    assert sql.one("SELECT state::text FROM mail_service.sns_subscriptions") == "offered"
    reconcile.sweep(replace(rt, confirm_subscription=lambda arn, token: "arn:sub"))
    assert sql.one("SELECT state::text FROM mail_service.sns_subscriptions") == "confirmed"


def test_an_offer_whose_token_died_is_closed(rt: Runtime, sql: Sql) -> None:
    from dataclasses import replace

    def fail(topic_arn: str, token: str) -> str:
        raise Unavailable("SNS is away")

    rt = replace(rt, confirm_subscription=fail)
    ingest.accept(with_envelope(rt, offer), {}, b"")
    sql.advance(2 * 24 * 3600 + 1)
    reconcile.sweep(rt)
    assert sql("SELECT state::text, token FROM mail_service.sns_subscriptions") == [
        {"state": "expired", "token": None}
    ]
