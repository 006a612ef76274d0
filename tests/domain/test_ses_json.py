"""Reading what SES writes, field by field, and never raising."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.events import (
    EventKind,
    Fact,
    FactKind,
    Notice,
    ProviderEvent,
    Unreadable,
)
from mail_service.domain.ses_json import read_event

TAG_NAME = "mail_service_attempt"
TAG_HEADER = "X-Mail-Service-Attempt"
TAG = "3f8e0d1c-0000-4000-8000-00000000abcd"
OTHER_TAG = "3f8e0d1c-0000-4000-8000-00000000dcba"
AT = datetime(2026, 7, 29, 12, 1, tzinfo=UTC)
SENT_AT = datetime(2026, 7, 29, 12, 0, tzinfo=UTC)


def read(event: object):
    text = event if isinstance(event, str) else json.dumps(event)
    return read_event(text, tag_name=TAG_NAME, tag_header=TAG_HEADER)


def event_of(kind: str = "Send", key: str = "eventType", mail: object = None, **parts: object):
    base = {"timestamp": "2026-07-29T12:00:00.000Z", "messageId": "0102-000000"}
    outcome = read({key: kind, "mail": base if mail is None else mail, **parts})
    assert isinstance(outcome, ProviderEvent), outcome
    return outcome


@pytest.mark.parametrize("key", ["eventType", "notificationType"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Send", EventKind.SEND),
        ("Delivery", EventKind.DELIVERY),
        ("Bounce", EventKind.BOUNCE),
        ("Complaint", EventKind.COMPLAINT),
        ("Reject", EventKind.REJECT),
        ("DeliveryDelay", EventKind.DELIVERY_DELAY),
        ("Rendering Failure", EventKind.RENDERING_FAILURE),
        ("RENDERING_FAILURE", EventKind.RENDERING_FAILURE),
        ("Open", EventKind.OPEN),
        ("Click", EventKind.CLICK),
        ("Subscription", EventKind.SUBSCRIPTION),
        ("Received", EventKind.RECEIVED),
        ("Something New", EventKind.OTHER),
        ("", EventKind.OTHER),
    ],
)
def test_the_kind_is_read_in_both_dialects(key, name, kind):
    assert event_of(name, key).kind is kind


def test_the_kind_of_event_publishing_wins_and_one_of_another_type_is_as_good_as_none():
    assert event_of("Bounce", notificationType="Delivery").kind is EventKind.BOUNCE
    assert event_of("Bounce", "notificationType", eventType=7).kind is EventKind.BOUNCE
    assert read({"eventType": ["Bounce"], "mail": {}}).kind is EventKind.OTHER  # type: ignore
    assert read({"mail": {}}).kind is EventKind.OTHER  # type: ignore


@pytest.mark.parametrize(
    "text",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        "Successfully validated SNS topic for Amazon SES event publishing.\n",
        '{"notificationType":"AmazonSnsSubscriptionSucceeded","message":"You have"}',
    ],
)
def test_what_aws_says_on_setting_things_up_is_a_notice(text):
    assert read(text) == Notice()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        "null",
        "7",
        '"{}"',
        "{}",
        "{",
        '{"eventType":"Bounce"}',
        '{"eventType":"Bounce","mail":[]}',
        '{"eventType":"Bounce","mail":null}',
        '{"detail-type":"Email Bounce","detail":{"eventType":"Bounce","mail":{}}}',
        '{"eventType":"Bounce","eventType":"Send","mail":{}}',
        '{"eventType":"Bounce","mail":{},"x":NaN}',
        '{"eventType":"Bounce","mail":{},"x":1e999999}',
        '{"eventType":"Bounce","mail":{},"x":' + "[" * 100_000 + "]" * 100_000 + "}",
        "[" * 1_000_000,
        '{"eventType":"Bounce","mail":{},"x":"' + '\\"' * 300_000,
        "\ud800",
        "\ufeff{}",
        "\x00",
    ],
    ids=range(21),
)
def test_what_is_no_ses_event_is_unreadable_and_soon(text):
    started = time.monotonic()
    outcome = read(text)
    assert time.monotonic() - started < 1
    assert isinstance(outcome, Unreadable)
    assert outcome.why


def test_a_bounce_gives_each_recipient_s_fact_with_ses_s_words():
    event = event_of(
        "Bounce",
        bounce={
            "bounceType": "Permanent",
            "bounceSubType": "General",
            "timestamp": "2026-07-29T12:01:00.000Z",
            "bouncedRecipients": [
                {"emailAddress": "Ada <Ada@Example.COM>", "action": "failed"},
                {"emailAddress": "bob@example.com"},
                {"diagnosticCode": "no address"},
                {"emailAddress": "undisclosed-recipients:;"},
                {"emailAddress": None},
                "carol@example.com",
                None,
                {"emailAddress": "bob@example.com"},
            ],
        },
    )
    assert event.occurred_at == AT
    assert event.facts == (
        Fact(
            kind=FactKind.BOUNCED,
            address="ada@example.com",
            at=AT,
            type="Permanent",
            subtype="General",
            action="failed",
        ),
        Fact(
            kind=FactKind.BOUNCED,
            address="bob@example.com",
            at=AT,
            type="Permanent",
            subtype="General",
        ),
    )


def test_a_complaint_tells_its_feedback_type_and_sub_type():
    event = event_of(
        "Complaint",
        complaint={
            "complainedRecipients": [{"emailAddress": "ada@example.com"}],
            "complaintFeedbackType": "not-spam",
            "complaintSubType": "OnAccountSuppressionList",
        },
    )
    assert event.facts == (
        Fact(
            kind=FactKind.COMPLAINED,
            address="ada@example.com",
            at=SENT_AT,
            type="not-spam",
            subtype="OnAccountSuppressionList",
        ),
    )


def test_deliveries_and_delays_give_facts_and_an_expiry_is_not_a_time_of_the_event():
    delivered = event_of(
        "Delivery", delivery={"recipients": ["ada@example.com", 7, "", "ada@example.com"]}
    )
    assert delivered.facts == (
        Fact(kind=FactKind.DELIVERED, address="ada@example.com", at=SENT_AT),
    )
    delayed = event_of(
        "DeliveryDelay",
        deliveryDelay={
            "timestamp": "2026-07-29T12:01:00.000Z",
            "expirationTime": "2026-07-30T02:00:00.000Z",
            "delayType": "MailboxFull",
            "delayedRecipients": [{"emailAddress": "ada@example.com", "status": "4.2.2"}],
        },
    )
    assert delayed.facts == (Fact(kind=FactKind.DELAYED, address="ada@example.com", at=AT),)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [("Reject", {"reject": {"reason": "Bad content"}}), ("Rendering Failure", {"failure": None})],
)
def test_a_reject_and_a_rendering_failure_are_about_everyone_in_the_call(kind, parts):
    expected = (Fact(kind=FactKind.REJECTED, address=None, at=SENT_AT),)
    assert event_of(kind, **parts).facts == expected
    timed = {name: {"timestamp": "2026-07-29T12:01:00Z"} for name in parts}
    assert event_of(kind, **timed).facts == (replace(expected[0], at=AT),)
    assert event_of(kind).facts == expected


@pytest.mark.parametrize("kind", ["Send", "Open", "Click", "Subscription", "Received", "New"])
def test_other_kinds_give_no_facts(kind):
    detail = {"recipients": ["ada@example.com"], "bouncedRecipients": [{"emailAddress": "a@b.c"}]}
    names = ("send", "open", "click", "subscription", "receipt", "received", "delivery", "other")
    assert event_of(kind, **dict.fromkeys(names, detail)).facts == ()


CONTAINERS = [None, 7, "ada@example.com", {"emailAddress": "ada@example.com"}, [], [[]], [{}], True]


@pytest.mark.parametrize("recipients", CONTAINERS, ids=str)
@pytest.mark.parametrize(
    ("kind", "member", "name"),
    [
        ("Bounce", "bounce", "bouncedRecipients"),
        ("Complaint", "complaint", "complainedRecipients"),
        ("DeliveryDelay", "deliveryDelay", "delayedRecipients"),
        ("Delivery", "delivery", "recipients"),
    ],
)
def test_containers_of_another_type_give_no_facts(kind, member, name, recipients):
    assert event_of(kind, **{member: {name: recipients}}).facts == ()
    assert event_of(kind, **{member: recipients}).facts == ()
    assert event_of(kind).facts == ()


WORDS = ["", "x" * 65, "nul\x00", "half \ud800", "two\nlines", 7, None, ["Permanent"], {}]


@pytest.mark.parametrize("word", WORDS, ids=ascii)
def test_a_word_that_postgres_or_a_person_could_not_read_is_none(word):
    bounce = {
        "bounceType": word,
        "bounceSubType": word,
        "bouncedRecipients": [{"emailAddress": "ada@example.com", "action": word}],
    }
    [fact] = event_of("Bounce", bounce=bounce).facts
    assert (fact.type, fact.subtype, fact.action) == (None, None, None)


def test_a_word_of_sixty_four_characters_is_kept_whole():
    entries = [{"emailAddress": "ada@example.com"}]
    [fact] = event_of("Bounce", bounce={"bounceType": "x" * 64, "bouncedRecipients": entries}).facts
    assert fact.type == "x" * 64


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0102019a-000000", "0102019a-000000"),
        ("0102019a-000000@email.amazonses.com", "0102019a-000000"),
        ("0102019a-000000@eu-west-1.amazonses.com", "0102019a-000000"),
        ("x" * 256, "x" * 256),
        ("x" * 257, None),
        ("@email.amazonses.com", None),
        ("", None),
        (" 0102", None),
        ("0102\n", None),
        ("01\x0002", None),
        ("é", None),
        ("\ud800", None),
        (7, None),
        (None, None),
        (["0102"], None),
    ],
    ids=ascii,
)
def test_the_message_id_is_bare_printable_and_bounded_or_none(value, expected):
    assert event_of(mail={"messageId": value}).provider_message_id == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({TAG_NAME: [TAG]}, TAG),
        ({TAG_NAME: [TAG], "ses:configuration-set": ["main"]}, TAG),
        ({TAG_NAME: []}, None),
        ({TAG_NAME: [TAG, TAG]}, None),
        ({TAG_NAME: [TAG, OTHER_TAG]}, None),
        ({TAG_NAME: TAG}, None),
        ({TAG_NAME: [TAG.upper()]}, None),
        ({TAG_NAME: [f"{TAG}\n"]}, None),
        ({TAG_NAME: [f" {TAG}"]}, None),
        ({TAG_NAME: [f"{{{TAG}}}"]}, None),
        ({TAG_NAME: [TAG.replace("-", "")]}, None),
        ({TAG_NAME: [7]}, None),
        ({TAG_NAME.upper(): [TAG]}, None),
        ({"other": [TAG]}, None),
    ],
    ids=ascii,
)
def test_the_tag_is_read_from_tags_in_the_one_form_we_write_and_headers_are_not_asked(
    tags, expected
):
    headers = [{"name": TAG_HEADER, "value": OTHER_TAG}]
    assert event_of(mail={"tags": tags, "headers": headers}).request_tag == expected
    assert event_of(mail={"tags": tags}).request_tag == expected


@pytest.mark.parametrize("tags", [{}, {"tags": None}, {"tags": {}}], ids=str)
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([{"name": TAG_HEADER, "value": TAG}], TAG),
        ([{"name": TAG_HEADER.lower(), "value": f" {TAG}\t"}], TAG),
        ([{"name": "To", "value": "x"}, {"name": TAG_HEADER.upper(), "value": TAG}], TAG),
        ([{"name": TAG_HEADER, "value": TAG}, {"name": TAG_HEADER, "value": TAG}], TAG),
        ([{"name": TAG_HEADER, "value": TAG}, {"name": TAG_HEADER, "value": OTHER_TAG}], None),
        ([{"name": TAG_HEADER, "value": TAG}, {"name": TAG_HEADER, "value": None}], None),
        ([{"name": TAG_HEADER, "value": TAG.upper()}], None),
        ([{"name": TAG_HEADER + "s", "value": TAG}], None),
        ([{"name": 7, "value": TAG}, None, [], "x"], None),
        ({TAG_HEADER: TAG}, None),
        (None, None),
    ],
    ids=ascii,
)
def test_the_header_speaks_where_the_event_has_no_tags_at_all(tags, headers, expected):
    assert event_of(mail={**tags, "headers": headers}).request_tag == expected


@pytest.mark.parametrize("tags", [[], 0, "", False, "x", [TAG]], ids=repr)
def test_tags_of_another_type_are_tags_that_we_cannot_read(tags):
    headers = [{"name": TAG_HEADER, "value": TAG}]
    assert event_of(mail={"tags": tags, "headers": headers}).request_tag is None


def test_the_next_best_time_is_used_where_one_cannot_be_read():
    def at(own: object, sent: object):
        return event_of("Open", mail={"timestamp": sent}, open={"timestamp": own}).occurred_at

    assert at("2026-07-29T12:01:00Z", "2026-07-29T12:00:00Z") == AT
    for unreadable in ("soon", 7, None, "", "2026-02-30T00:00:00Z"):
        assert at(unreadable, "2026-07-29T12:00:00Z") == SENT_AT
        assert at(unreadable, unreadable) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
entries = st.lists(
    json_values
    | st.fixed_dictionaries({}, optional={"emailAddress": json_values, "action": json_values}),
    max_size=4,
)
details = json_values | st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("timestamp", "bounceType", "complaintFeedbackType"), json_values),
        **dict.fromkeys(
            ("bouncedRecipients", "complainedRecipients", "delayedRecipients"), entries
        ),
        "recipients": st.lists(st.text() | json_values) | json_values,
    },
)
mails = json_values | st.fixed_dictionaries(
    {},
    optional={
        "messageId": json_values,
        "timestamp": json_values,
        "tags": json_values | st.dictionaries(st.just(TAG_NAME), json_values),
        "headers": json_values
        | st.lists(st.dictionaries(st.sampled_from(["name", "value"]), json_values)),
    },
)
KINDS = ["Bounce", "Complaint", "Delivery", "DeliveryDelay", "Reject", "Rendering Failure", "New"]


@given(st.text(alphabet=st.characters()))
def test_any_text_is_read_without_an_exception(text):
    assert read(text) is not None


@given(st.text(alphabet='{}[]",:\\u0d8mailevntTyp 019eE+-.\n'))
def test_any_text_that_looks_like_json_is_read_without_an_exception(text):
    assert read(text) is not None


@given(
    st.fixed_dictionaries(
        {"eventType": st.sampled_from(KINDS) | json_values, "mail": mails},
        optional=dict.fromkeys(("bounce", "complaint", "delivery", "deliveryDelay"), details),
    )
)
def test_any_event_is_read_without_an_exception_into_what_can_be_stored(event):
    outcome = read(event)
    if not isinstance(outcome, ProviderEvent):
        return
    for text in [
        outcome.provider_message_id,
        outcome.request_tag,
        *(word for f in outcome.facts for word in (f.address, f.type, f.subtype, f.action)),
    ]:
        assert text is None or ("\x00" not in text and text.encode() and len(text) <= 256)
    times = [outcome.occurred_at, *(fact.at for fact in outcome.facts)]
    assert all(at is None or (at.tzinfo is UTC and 1970 <= at.year <= 9999) for at in times)
