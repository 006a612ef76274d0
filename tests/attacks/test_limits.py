"""Genuine messages of our topic that would do harm if more were believed than they may say.

All are answered 200: a 4xx or 5xx would lose them or bring them back for an hour.
"""

import json
from typing import Any

import pytest
import structlog

from tests.attacks.attack import GOOD_PEM, KNOWN_ID, VICTIM, VICTIMS_TAG, harmful
from tests.attacks.stage import OTHER, Seen, Stage
from tests.signing import (
    CERTIFICATE_URL,
    Shelf,
    body_of,
    certificate,
    confirmation,
    make_reader,
    notification,
    rsa_key,
    sign,
)
from tests.steps import ses_event

EVENTS, ALLOWANCES = "mail_service.ses_events", "mail_service.payload_allowances"
METADATA = "http://169.254.169.254/latest/meta-data/"


def only_stored(seen: Seen) -> bool:
    """Whether an event was kept, and nothing else came of it than the count of what is kept."""
    return seen.status == 200 and seen.changed - {ALLOWANCES} == {EVENTS}


def status_of(stage: Stage, number: str) -> str:
    """Give how far a stored event was understood."""
    ((status,),) = stage.rows(
        f"SELECT status::text FROM {EVENTS} WHERE sns_message_id = '{number}'"
    )
    return status


def test_w6_a_bad_certificate_under_a_good_name_is_forgotten_and_a_good_one_kept(stage: Stage):
    seconds = 0.0
    theirs = rsa_key(number=1)
    shelf = Shelf({CERTIFICATE_URL: certificate(theirs, self_signed=True)})
    stage.read = make_reader(shelf, elapsed=lambda: seconds)
    good, forged = body_of(sign(harmful())), body_of(sign(harmful(), key=theirs))
    assert stage.post(forged).counted == {"bad_certificate": 1}
    shelf.pems = {CERTIFICATE_URL: GOOD_PEM}
    seconds = 15.0
    assert stage.post(good).status == 200
    shelf.pems = {CERTIFICATE_URL: certificate(theirs, self_signed=True)}
    seconds = 4000.0
    assert stage.post(forged).counted == {"bad_certificate": 1}, "the second look after an hour"
    again = body_of(sign(harmful(MessageId="again")))
    assert stage.post(again).status == 200, "and the good key still stands"


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_w12_w13_no_address_of_a_confirmation_is_followed_or_logged(taking: Stage, kind: str):
    made = confirmation(kind, MessageId=f"of-{kind}", SubscribeURL=METADATA)
    known = len(taking.confirmed)
    with structlog.testing.capture_logs() as lines:
        seen = taking.post(body_of(sign(made) | {"UnsubscribeURL": METADATA}))
    assert (seen.status, seen.network) == (200, ())
    assert seen.changed == {"mail_service.sns_subscriptions"}
    assert len(taking.confirmed) == known + (kind == "SubscriptionConfirmation")
    assert METADATA not in repr(lines)
    assert str(made["Token"]) not in repr(lines)
    assert not _stands_anywhere(taking, METADATA)
    assert "topic_unsubscribed" in repr(lines) or kind == "SubscriptionConfirmation"


def test_w13_the_address_to_unsubscribe_is_kept_nowhere(taking: Stage):
    with structlog.testing.capture_logs() as lines:
        made = sign(harmful(UnsubscribeURL=f"{METADATA}?Action=Unsubscribe"))
        assert taking.post(body_of(made)).status == 200
    assert METADATA not in repr(lines)
    assert not _stands_anywhere(taking, METADATA)


def _stands_anywhere(stage: Stage, text: str) -> bool:
    return any(text in repr(stage.rows(f"SELECT t::text FROM {name} t")) for name in stage.tables)


def test_w14_a_replay_changes_nothing_however_old_or_often(stage: Stage):
    old = sign(harmful(MessageId="old", Timestamp="2012-04-26T20:06:41.581Z"))
    assert EVENTS in stage.post(body_of(old)).changed, (
        "age alone refuses nothing: it may be redriven"
    )
    known = sign(notification("{}", MessageId=KNOWN_ID))
    for body in (body_of(old), body_of(known), body_of(old | {"UnsubscribeURL": "another"})) * 3:
        seen = stage.post(body)
        assert (seen.status, seen.changed, seen.counted) == (200, frozenset(), {})


GENUINE = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "NaN": '{"eventType":"Bounce","mail":{},"x":NaN}',
    "overflow": '{"eventType":"Bounce","mail":{},"x":1e999999}',
    "NUL": "\u0000",
    "duplicate keys": '{"eventType":"Bounce","mail":{},"mail":{}}',
    "a list": "[]",
    "a number": "1",
    "blank": "",
    "no mail": '{"eventType":"Bounce"}',
    "mail is a list": '{"eventType":"Bounce","mail":[]}',
    "large": '{"mail":' + '"' + "y" * 1_000_000 + '"}',
}


@pytest.mark.parametrize("name", GENUINE)
def test_w16_what_is_genuine_and_unreadable_is_kept_and_does_nothing(taking: Stage, name: str):
    number = f"unreadable-{[*GENUINE].index(name)}"
    assert only_stored(taking.tell(GENUINE[name], number))
    assert status_of(taking, number) == "unparseable"


def odd(**changes: Any) -> str:
    """Give a bounce of the victim's mail with something in it that nobody expects."""
    event = ses_event("Bounce", tag=VICTIMS_TAG, recipients=("nobody@example.com",))
    return json.dumps({name: changes.get(name, part) for name, part in event.items()})


def bounced(address: object) -> dict[str, object]:
    return {"bounceType": "Permanent", "bouncedRecipients": [{"emailAddress": address}]}


ODD = {
    "NUL in an id": odd(mail={"messageId": "a\0b", "tags": {}}),
    "lone surrogate in an id": odd(mail={"messageId": "\ud800", "tags": {}}),
    "lone surrogate in an address": odd(bounce=bounced("\ud800@example.com")),
    "NUL in an address": odd(bounce=bounced("a\0b@example.com")),
    "an address that grows in lower case": odd(bounce=bounced("\u0130" * 130 + "@example.com")),
    "an address that grows in punycode": odd(bounce=bounced("a" * 200 + "@" + "ü" * 45 + ".de")),
    "a million characters of address": odd(bounce=bounced("a" * 1_000_000 + "@example.com")),
    "an address that is a list": odd(bounce=bounced([VICTIM])),
    "recipients that are a text": odd(bounce={"bouncedRecipients": VICTIM}),
    "a bounce that is a number": odd(bounce=1e300),
    "NUL in a type": odd(bounce=bounced("x@example.com") | {"bounceType": "a\0"}),
    "a time beyond all": odd(
        bounce=bounced("x@example.com") | {"timestamp": "9999-12-31T23:59:59-23:59"}
    ),
    "a kind with NUL": json.dumps({"eventType": "Bou\0nce", "mail": {}}),
    "tags of another form": odd(mail={"tags": [VICTIMS_TAG]}),
    "20,000 recipients": odd(bounce={"bouncedRecipients": [{"emailAddress": "x@b.de"}] * 20_000}),
}


@pytest.mark.parametrize("name", ODD)
def test_w16_what_is_genuine_and_odd_is_taken_and_touches_nobody(taking: Stage, name: str):
    seen = taking.tell(ODD[name], f"odd-{[*ODD].index(name)}")
    assert seen.status == 200
    assert EVENTS in seen.changed
    assert seen.changed.isdisjoint({"mail_service.email_recipients", "mail_service.suppressions"})


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (ses_event("Complaint", message_id="theirs", recipients=(VICTIM,)), "unmatched"),
        (
            ses_event("Complaint", tag="00000000-0000-4000-8000-0000000000ff", message_id="theirs"),
            "unmatched",
        ),
        (ses_event("Complaint", tag=VICTIMS_TAG, message_id="theirs"), "quarantined"),
    ],
    ids=["no tag", "another's tag", "our tag with another's id"],
)
def test_w17_an_event_of_another_application_touches_nothing_of_ours(
    taking: Stage, event: dict[str, Any], status: str
):
    number = f"theirs-{event['mail'].get('tags')}".translate(dict.fromkeys(map(ord, "[]{}' :")))
    assert only_stored(taking.tell(event, number))
    assert status_of(taking, number) == status


@pytest.mark.parametrize("kind", ["Bounce", "Complaint"])
def test_w18_only_a_recipient_of_the_call_is_suppressed(stage: Stage, kind: str):
    strangers = tuple(f"stranger-{number}@example.com" for number in range(20))
    event = ses_event(kind, tag=VICTIMS_TAG, recipients=(*strangers, VICTIM, "ADA@EXAMPLE.COM"))
    assert stage.tell(event, "many").status == 200
    found = stage.rows("SELECT address FROM mail_service.suppressions ORDER BY address")
    assert found == [(VICTIM,), (OTHER,)]  # the other one bounced before
    assert len(stage.rows("SELECT 1 FROM mail_service.email_recipients")) == 2


def test_w20_events_of_no_call_of_ours_are_kept_apart_and_touch_nothing(taking: Stage):
    for number in range(30):
        event = ses_event("Delivery", message_id=f"made-up-{number}")
        assert only_stored(taking.tell(event, f"made-up-{number}"))


def test_w21_a_forger_learns_nothing_from_the_answer(standing: Stage):
    bodies = {
        standing.post(body_of(sign(made, key=rsa_key(number=1)))).body
        for made in (
            harmful(MessageId=KNOWN_ID),
            harmful(MessageId="unknown"),
            harmful(TopicArn="arn:aws:sns:eu-west-1:1:t"),
            confirmation(),
        )
    }
    assert len(bodies) == 1
