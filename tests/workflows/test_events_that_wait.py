"""Events that found no call: kept within bounds, looked at again, given up, and told about."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mail_service.domain.events import SubscriptionOffer, UnsubscribeNotice
from mail_service.domain.outcomes import Accepted
from mail_service.errors import MalformedEnvelope, NotGenuine, Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import ingest, observe, reconcile, record, silence
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.signing import NOW, body_of, make_reader, notification, sign
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
)

Alarms = Callable[[], list[str]]


@pytest.fixture
def alarms(capsys: pytest.CaptureFixture[str]) -> Alarms:
    """Gives the alarms since it was last asked, as they were logged."""

    def read() -> list[str]:
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if "alarm=" in line]

    return read


# -- the share of payload ----------------------------------------------------------------------------


def flood(rt: Runtime, number: int, size: int = 4 * 1024 * 1024) -> None:
    for n in range(number):
        event = ses_event("Delivery", message_id=f"foreign-{n}") | {"padding": "x" * size}
        bring(rt, event, f"{n:08}-0000-4000-8000-000000000000")


def test_a_flood_of_another_application_costs_narrow_rows_once_the_hours_share_is_used(
    rt: Runtime, sql: Sql, alarms: Alarms
) -> None:
    flood(rt, 6)
    rows = sql("SELECT status::text, payload FROM mail_service.ses_events ORDER BY sns_message_id")
    assert [row["payload"] is not None for row in rows] == [True, True, True, False, False, False]
    assert {row["status"] for row in rows} == {"unmatched"}
    assert sum("event_payloads_dropped" in line for line in alarms()) == 1
    (dropped,) = observe.figures(rt).event_payloads_dropped_last_day
    assert (dropped.label, dropped.count) == ("unattached", 3)


def test_an_event_of_ours_that_came_early_amid_a_flood_is_matched_by_its_narrow_row(
    rt: Runtime, sql: Sql
) -> None:
    email = sign_up(rt)
    ended = call(rt, take_one(rt))
    flood(rt, 5)
    bring(rt, ses_event("Bounce", message_id="message-1"))
    assert sql(
        "SELECT payload FROM mail_service.ses_events WHERE provider_message_id = 'message-1'"
    ) == [{"payload": None}]
    record.results(rt, [ended])
    assert look(rt, email).recipients[0].status == "bounced"
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 1


def test_events_of_our_calls_use_none_of_the_share_and_a_repeat_uses_it_once(
    rt: Runtime, sql: Sql
) -> None:
    sign_up(rt)
    (claim,) = send_all(rt)
    for n in range(3):
        bring(rt, ses_event("Open", tag=str(claim.row.attempt_id), message_id="message-1"), f"{n}")
    assert sql("SELECT * FROM mail_service.payload_allowances") == []
    for _ in range(3):
        bring(rt, ses_event("Open", message_id="foreign"), "the same")
    taken = sql.one("SELECT bytes FROM mail_service.payload_allowances")
    assert taken == len(json.dumps(ses_event("Open", message_id="foreign")))


def test_the_share_is_an_hours_and_unreadable_texts_have_their_own(rt: Runtime, sql: Sql) -> None:
    flood(rt, 5)
    bring(rt, "not an event")
    sql.advance(3600)
    bring(rt, ses_event("Delivery", message_id="an hour later"))
    kept = sql(
        "SELECT status::text AS s, payload IS NOT NULL AS kept FROM mail_service.ses_events"
        " ORDER BY received_at DESC LIMIT 2"
    )
    assert kept == [{"s": "unmatched", "kept": True}, {"s": "unparseable", "kept": True}]


def test_no_event_makes_a_wide_row_however_many_recipients_it_names(rt: Runtime, sql: Sql) -> None:
    many = tuple(f"a{n}@example.com" for n in range(5000))
    bring(rt, ses_event("Delivery", message_id="foreign", recipients=many))
    assert sql.one("SELECT jsonb_array_length(facts) FROM mail_service.ses_events") == 200


# -- the sweep ---------------------------------------------------------------------------------------


def saved_without_its_finalise(sql: Sql, message_id: str) -> None:
    """As when an event and the finalise of its call were committed at the same moment."""
    sql("UPDATE mail_service.send_attempts SET provider_message_id = %s", message_id)


@pytest.mark.parametrize("away", [0, 3 * 3600, 30 * 3600])
def test_an_event_that_missed_its_finalise_is_matched_by_the_next_sweep_however_late_that_is(
    rt: Runtime, sql: Sql, away: float
) -> None:
    email = sign_up(rt)
    send_all(rt)
    reconcile.sweep(rt)
    bring(rt, ses_event("Delivery", message_id="m-other"))
    saved_without_its_finalise(sql, "m-other")
    sql.advance(away)
    reconcile.sweep(rt)
    assert look(rt, email).recipients[0].status == "delivered"


def test_an_old_event_is_looked_at_once_more_before_it_is_given_up(rt: Runtime, sql: Sql) -> None:
    email = sign_up(rt)
    send_all(rt)
    bring(rt, ses_event("Delivery", message_id="m-other"))
    for _ in range(2):
        reconcile.sweep(rt)
        sql.advance(3600)
    saved_without_its_finalise(sql, "m-other")
    sql.advance(24 * 3600)
    swept = reconcile.sweep(rt)
    assert swept is not None
    assert (swept.events_matched, swept.events_given_up) == (1, 0)
    assert look(rt, email).recipients[0].status == "delivered"


def test_the_age_of_what_waits_is_a_figure_and_ends_when_it_is_given_up(
    rt: Runtime, sql: Sql
) -> None:
    bring(rt, ses_event("Delivery", message_id="foreign"))
    sql.advance(7200)
    reconcile.sweep(rt)
    waiting = observe.figures(rt).events
    assert waiting.unmatched == 1
    assert 7200 <= (waiting.oldest_unmatched_seconds or 0) < 7300
    sql.advance(24 * 3600)
    reconcile.sweep(rt)
    given_up = observe.figures(rt).events
    assert (given_up.unmatched, given_up.oldest_unmatched_seconds) == (0, None)


# -- kinds that nobody has heard of, and texts that are no events -------------------------------------


def test_a_kind_that_is_not_known_is_kept_matched_counted_and_changes_nothing(
    rt: Runtime, sql: Sql
) -> None:
    email = sign_up(rt)
    (claim,) = send_all(rt)
    event = ses_event("Send", tag=str(claim.row.attempt_id), message_id="message-1")
    event |= {"eventType": "Teleported", "teleported": {"to": ["ada@example.com"]}, "new": [{}]}
    bring(rt, event)
    seen = look(rt, email)
    assert [e.kind for e in seen.events] == ["other"]
    assert seen.recipients[0].status == "submitted"
    assert [(c.label, c.count) for c in observe.figures(rt).events_last_hour] == [("other", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        json.dumps({"notificationType": "AmazonSnsSubscriptionSucceeded", "message": "…"}),
    ],
)
def test_awss_own_test_is_kept_as_foreign_and_said_to_have_arrived(
    rt: Runtime, sql: Sql, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(rt, text)
    assert sql.one("SELECT status::text FROM mail_service.ses_events") == "foreign"
    out = capsys.readouterr().out
    assert "topic.validated" in out
    assert "alarm" not in out


# -- refusals that a setting at AWS causes ------------------------------------------------------------


def refused(rt: Runtime, headers: dict[str, str], body: bytes) -> None:
    with pytest.raises((MalformedEnvelope, NotGenuine)):
        ingest.accept(replace(rt, read_envelope=make_reader()), headers, body)


BARE = json.dumps(ses_event("Bounce")).encode()
RAW = {"x-amz-sns-rawdelivery": "true"}


@pytest.mark.parametrize("headers", [{}, RAW])
def test_raw_delivery_is_refused_with_one_alarm_an_hour_that_says_what_to_switch_off(
    rt: Runtime, sql: Sql, alarms: Alarms, headers: dict[str, str]
) -> None:
    for _ in range(3):
        refused(rt, headers, BARE)
    (told,) = alarms()
    assert "alarm=webhook_raw_delivery" in told
    assert "RawMessageDelivery" in told
    sql.advance(3600)
    refused(rt, headers, BARE)
    assert len(alarms()) == 1
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 0
    assert sql.one("SELECT sum(count) FROM mail_service.webhook_rejections") == 4


def test_the_alarm_names_the_subscription_only_if_it_is_of_a_topic_of_ours(
    rt: Runtime, sql: Sql, alarms: Alarms
) -> None:
    for told, named in (
        (f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55", True),
        (f"{TOPIC}:\n{TOPIC}:x", False),
        ("arn:aws:sns:eu-west-1:999999999999:theirs:2bcfbf39", False),
        (f"{TOPIC}:alarm=forged do=nothing", False),
    ):
        refused(rt, {**RAW, "x-amz-sns-subscription-arn": told}, BARE)
        (line,) = alarms()
        assert ("subscription_arn" in line) is named
        sql.advance(3600)


def test_a_signature_version_that_is_not_allowed_raises_one_alarm_and_a_forgery_none(
    rt: Runtime, alarms: Alarms
) -> None:
    for _ in range(2):
        refused(rt, {}, body_of(sign(notification(), "1")))
        refused(rt, {}, body_of(sign(notification()) | {"Message": "changed"}))
    (told,) = alarms()
    assert "alarm=webhook_signature_version" in told
    assert "SignatureVersion" in told


# -- silence -----------------------------------------------------------------------------------------


def accepted(rt: Runtime, key: str = "ada") -> str:
    """Give the tag of a call that SES took."""
    sign_up(rt, f"{key}@example.com")
    (claim,) = send_all(rt)
    return str(claim.row.attempt_id)


def silent_after(rt: Runtime, sql: Sql, alarms: Alarms, seconds: float) -> int:
    sql.advance(seconds)
    alarms()
    reconcile.sweep(rt)
    return sum("events_silent" in line for line in alarms())


def test_accepted_mail_without_any_event_raises_an_alarm_after_a_while_and_then_hourly(
    rt: Runtime, sql: Sql, alarms: Alarms
) -> None:
    accepted(rt)
    assert [silent_after(rt, sql, alarms, s) for s in (890, 70, 600, 3000)] == [0, 1, 0, 1]
    assert (observe.figures(rt).events_silent_seconds or 0) > 900
    assert (observe.readiness(rt).events_silent_seconds or 0) > 900


def test_any_event_since_ends_the_silence_and_mail_after_it_begins_another(
    rt: Runtime, sql: Sql, alarms: Alarms
) -> None:
    accepted(rt)
    sql.advance(60)
    bring(rt, ses_event("Send", message_id="of-another-application"))
    assert observe.figures(rt).events_silent_seconds is None
    assert silent_after(rt, sql, alarms, 3600) == 0
    accepted(rt, "bea")
    assert silent_after(rt, sql, alarms, 901) == 1


def test_an_event_that_came_while_its_call_was_not_yet_recorded_is_no_silence(
    rt: Runtime, sql: Sql, alarms: Alarms
) -> None:
    sign_up(rt)
    ended = call(rt, take_one(rt))
    bring(rt, ses_event("Send", tag=str(ended.row.attempt_id), message_id="message-1"))
    sql.advance(1)
    record.results(rt, [ended])
    assert silent_after(rt, sql, alarms, 3600) == 0


@pytest.mark.parametrize("nothing", ["nobody was mailed", "nothing was accepted", "a day ago"])
def test_where_nothing_was_accepted_lately_silence_means_nothing(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, alarms: Alarms, nothing: str
) -> None:
    if nothing == "nothing was accepted":
        sign_up(rt)
    if nothing == "a day ago":
        accepted(rt)
        sql.advance(24 * 3600)
    assert silent_after(rt, sql, alarms, 3600) == 0
    silence.watch(rt)
    assert alarms() == []


# -- mail that nothing was told about ----------------------------------------------------------------


def test_a_call_is_unconfirmed_from_a_quarter_of_an_hour_until_its_first_event(
    rt: Runtime, sql: Sql
) -> None:
    email = sign_up(rt)
    (claim,) = send_all(rt)
    assert [a.unconfirmed for a in look(rt, email).attempts] == [False]
    sql.advance(901)
    assert [a.unconfirmed for a in look(rt, email).attempts] == [True]
    figures = observe.figures(rt).events
    assert figures.unconfirmed == 1
    assert {k: v for k, v in figures.unconfirmed_by_age.items() if v} == {"15 min to 1 h": 1}
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="message-1"))
    assert [a.unconfirmed for a in look(rt, email).attempts] == [False]
    assert observe.figures(rt).events.unconfirmed == 0


@pytest.mark.parametrize(
    ("kind", "status"),
    [("Reject", "rejected"), ("Rendering Failure", "rejected"), ("DeliveryDelay", "delayed")],
)
@pytest.mark.parametrize("early", [False, True])
def test_outcomes_that_events_alone_tell_show_and_the_email_stays_submitted(
    rt: Runtime, mailer: ScriptedMailer, kind: str, status: str, early: bool
) -> None:
    mailer.answers(Accepted(provider_message_id="message-1"))
    email = sign_up(rt)
    ended = call(rt, take_one(rt))
    steps: list[Callable[[], Any]] = [
        lambda: record.results(rt, [ended]),
        lambda: bring(rt, ses_event(kind, message_id="message-1")),
    ]
    for step in reversed(steps) if early else steps:
        step()
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status) == ("submitted", status)


# -- subscriptions -----------------------------------------------------------------------------------


def test_subscriptions_are_listed_with_what_became_of_them_and_never_their_token(
    rt: Runtime, sql: Sql, alarms: Alarms
) -> None:
    def fail(topic_arn: str, token: str) -> str:
        raise Unavailable("SNS is away")

    def offer(number: int) -> SubscriptionOffer:
        return SubscriptionOffer(
            topic_arn=TOPIC, sns_message_id=f"offer-{number}", at=NOW, token="secret-token"
        )

    failing = replace(rt, confirm_subscription=fail)
    confirming = replace(rt, confirm_subscription=lambda topic, token: f"{topic}:sub")
    ingest.accept(with_envelope(failing, lambda: offer(1)), {}, b"")
    sql.advance(2 * 24 * 3600 + 1)
    reconcile.sweep(failing)
    assert any("subscription_expired" in line for line in alarms())
    ingest.accept(with_envelope(confirming, lambda: offer(2)), {}, b"")
    cut = UnsubscribeNotice(topic_arn=TOPIC, sns_message_id="cut", at=NOW)
    for _ in range(2):
        ingest.accept(with_envelope(rt, lambda: cut), {}, b"")
    assert sum("topic_unsubscribed" in line for line in alarms()) == 1
    found = observe.list_subscriptions(rt, limit=10)
    assert {(row.state, row.last_error) for row in found} == {
        ("expired", "SNS is away"),
        ("confirmed", None),
        ("unsubscribed", None),
    }
    assert "secret-token" not in repr(found)
    assert {(c.label, c.count) for c in observe.figures(rt).subscriptions} == {
        ("expired", 1),
        ("confirmed", 1),
        ("unsubscribed", 1),
    }
