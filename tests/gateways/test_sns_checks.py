"""Each check of an SNS request, in the order of design.md section 8."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mail_service.domain.events import Notification, SubscriptionOffer, UnsubscribeNotice
from mail_service.errors import EnvelopeRefused, MalformedEnvelope, NotGenuine, Unavailable
from mail_service.gateways import certificates, sns
from tests.signing import (
    CERTIFICATE_FILE,
    CERTIFICATE_URL,
    FOREIGN_TOPIC,
    NOW,
    TOPIC,
    Shelf,
    body_of,
    certificate,
    confirmation,
    make_reader,
    notification,
    rsa_key,
    sign,
)

AT = datetime(2026, 7, 29, 12, 1, 1, tzinfo=UTC)


def good_shelf() -> Shelf:
    return Shelf({CERTIFICATE_URL: certificate()})


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [{}, {"Subject": "Grüße ✉"}, {"Subject": ""}])
def test_a_signed_notification_is_read_with_and_without_a_subject(version, subject):
    text = 'line one\r\nline two with ü, ✉ and "quotes" \\/ \n'
    read = make_reader(versions=("1", "2"))
    signed = sign(notification(text, **subject), version)
    expected = Notification(
        topic_arn=TOPIC, sns_message_id=str(signed["MessageId"]), at=AT, text=text
    )
    assert read({}, body_of(signed)) == expected


def test_control_characters_in_message_and_subject_are_the_sender_s_own_business():
    text = "a\r\n\t\x00\x1f\x7f\x85\u2028b\nMessageId\nc"
    signed = sign(notification(text, Subject="a\r\n\t\x00\x1f\x7f\x85\u2028b"))
    assert make_reader()({}, body_of(signed)).text == text


def test_a_null_subject_counts_as_absent():
    signed = sign(notification()) | {"Subject": None}
    assert isinstance(make_reader()({}, body_of(signed)), Notification)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("SubscriptionConfirmation", SubscriptionOffer),
        ("UnsubscribeConfirmation", UnsubscribeNotice),
    ],
)
def test_signed_confirmations_are_read(kind, type_, version):
    envelope = make_reader(versions=("1", "2"))({}, body_of(sign(confirmation(kind), version)))
    assert isinstance(envelope, type_)
    assert (envelope.topic_arn, envelope.at) == (TOPIC, AT)
    if isinstance(envelope, SubscriptionOffer):
        assert envelope.token == confirmation()["Token"]
        assert envelope.token not in repr(envelope)


def test_a_message_of_any_age_is_read():
    signed = sign(notification(Timestamp="2012-04-26T20:06:41.581Z"))
    envelope = make_reader()({}, body_of(signed))
    assert envelope.at == datetime(2012, 4, 26, 20, 6, 41, 581000, tzinfo=UTC)


def test_lambda_spellings_are_read_but_not_both_at_once():
    signed = sign(notification())
    for name in ("SigningCertURL", "UnsubscribeURL"):
        signed[name.replace("URL", "Url")] = signed.pop(name)
    assert isinstance(make_reader()({}, body_of(signed)), Notification)
    signed["SigningCertURL"] = CERTIFICATE_URL
    with pytest.raises(MalformedEnvelope, match="two spellings"):
        make_reader()({}, body_of(signed))


def test_a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not():
    body = body_of(sign(notification()))
    assert make_reader(max_bytes=len(body))({}, body)
    with pytest.raises(MalformedEnvelope, match="too_large"):
        make_reader(max_bytes=len(body) - 1)({}, body)


# From here on: when two things are wrong at once, the earlier check speaks. Each step repairs the
# fault of the line before it, so the table is the order.
WRONG = notification(MessageId="two\nlines", Type=7, TopicArn=FOREIGN_TOPIC, Timestamp="never")
STEPS: list[tuple[dict[str, object], str]] = [
    ({}, "bad_field"),
    ({"Type": "foobar"}, "control_character"),
    ({"MessageId": "one-line"}, "bad_time"),
    ({"Timestamp": "2026-07-29T12:01:01.000Z"}, "unknown_type"),
    ({"Type": "Notification"}, "foreign_topic"),
    ({"TopicArn": TOPIC}, "header_mismatch"),
]


def test_the_earlier_check_speaks_when_several_things_are_wrong():
    shelf = good_shelf()
    read = make_reader(shelf, max_bytes=3000)
    headers = {"x-amz-sns-topic-arn": FOREIGN_TOPIC}
    envelope = {**sign(WRONG, url="https://example.com/x.pem", version="1"), "Signature": "?"}
    body = body_of(envelope)
    causes = [
        cause_of(read, headers, body[:-1] + b" " * 3000),
        cause_of(read, headers, body[:-1]),
    ]
    for repair, _ in STEPS:
        envelope |= repair
        causes.append(cause_of(read, headers, body_of(envelope)))
    headers = {"x-amz-sns-topic-arn": TOPIC}
    causes.append(cause_of(read, headers, body_of(envelope)))
    envelope["SigningCertURL"] = CERTIFICATE_URL
    causes.append(cause_of(read, headers, body_of(envelope)))
    assert shelf.asked == []
    envelope["SignatureVersion"] = "2"
    shelf.pems = {CERTIFICATE_URL: b"no certificate"}
    causes.append(cause_of(read, headers, body_of(envelope)))
    causes.append(cause_of(make_reader(max_bytes=3000), headers, body_of(envelope)))
    assert causes == [
        "too_large",
        "not_json",
        *(cause for _, cause in STEPS),
        "certificate_address",
        "signature_version",
        "bad_certificate",
        "bad_signature",
    ]


def cause_of(read, headers, body):
    with pytest.raises(EnvelopeRefused) as refusal:
        read(headers, body)
    return refusal.value.cause


def test_every_cause_that_can_be_counted_stands_in_the_module_docstring():
    named = set(re.findall(r"``(\w+)``", sns.__doc__ or ""))
    source = Path(sns.__file__).read_text() + Path(certificates.__file__).read_text()
    used = set(re.findall(r"(?:MalformedEnvelope|NotGenuine)\(\s*\"(\w+)\"", source))
    assert named == used


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-amz-sns-message-type", "SubscriptionConfirmation"),
        ("x-amz-sns-message-type", ""),
        ("x-amz-sns-topic-arn", FOREIGN_TOPIC),
        ("x-amz-sns-message-id", "c0000000-0000-4000-8000-000000000000"),
    ],
)
def test_a_header_that_contradicts_the_signed_body_is_refused(header, value):
    with pytest.raises(MalformedEnvelope, match="header_mismatch"):
        make_reader()({header: value}, body_of(sign(notification())))


def test_headers_that_agree_with_the_body_are_fine():
    signed = sign(notification())
    headers = {
        "content-type": "text/plain; charset=UTF-8",
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-topic-arn": TOPIC,
        "x-amz-sns-message-id": str(signed["MessageId"]),
        "x-amz-sns-subscription-arn": f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55",
    }
    assert make_reader()(headers, body_of(signed))


def test_a_refused_signature_version_names_the_attribute_to_set_and_asks_for_no_certificate():
    shelf = good_shelf()
    with pytest.raises(NotGenuine) as refusal:
        make_reader(shelf)({}, body_of(sign(notification(), "1")))
    assert refusal.value.cause == "signature_version"
    assert "SignatureVersion=2" in str(refusal.value)
    assert TOPIC in str(refusal.value)
    assert shelf.asked == []


def test_a_version_that_nobody_implements_is_refused_even_if_the_setting_lists_it():
    signed = sign(notification()) | {"SignatureVersion": "3"}
    with pytest.raises(NotGenuine, match="signature_version"):
        make_reader(versions=("2", "3"))({}, body_of(signed))


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"eventType":"Bounce","mail":{}}', {}),
        (b'{"notificationType":"Bounce"}', {}),
        (b'{"mail":{}}', {}),
        (b"Successfully validated SNS topic", {"x-amz-sns-rawdelivery": "true"}),
        (b'{"a":1}', {"x-amz-sns-rawdelivery": "true"}),
    ],
)
def test_raw_delivery_is_refused_with_what_to_do_about_it(body, headers):
    with pytest.raises(MalformedEnvelope, match="turn raw message delivery off") as refusal:
        make_reader()(headers, body)
    assert refusal.value.cause == "raw_delivery"


@pytest.mark.parametrize("url", ["http://127.0.0.1:4579", "http://localhost:9/_aws/sns"])
def test_a_listed_test_origin_serves_certificates_without_amazon_as_issuer(url):
    address = f"{url}/{CERTIFICATE_FILE}"
    plain = certificate(common_name="anything", self_signed=True)
    signed = body_of(sign(notification(), url=address))
    shelf = Shelf({address: plain})
    assert make_reader(shelf, origins=("http://127.0.0.1:1", f"{url}/"))({}, signed)
    with pytest.raises(NotGenuine, match="certificate_address"):
        make_reader(shelf)({}, signed)
    assert shelf.asked == [address]


def test_the_address_of_aws_keeps_its_checks_beside_a_test_origin():
    shelf = Shelf({CERTIFICATE_URL: certificate(self_signed=True)})
    with pytest.raises(NotGenuine, match="bad_certificate"):
        make_reader(shelf, origins=("http://127.0.0.1:1",))({}, body_of(sign(notification())))


def test_a_certificate_that_cannot_be_fetched_is_our_fault_and_not_the_sender_s():
    with pytest.raises(Unavailable):
        make_reader(Shelf({}))({}, body_of(sign(notification())))


def test_a_certificate_that_ends_while_it_is_cached_is_not_used_after_that():
    now = NOW
    read = make_reader(clock=lambda: now)
    body = body_of(sign(notification()))
    assert read({}, body)
    now = NOW + timedelta(days=301)
    with pytest.raises(NotGenuine, match="bad_certificate"):
        read({}, body)


def test_a_signature_that_does_not_fit_an_old_key_is_tried_once_with_the_newest():
    seconds = 0.0
    shelf = Shelf({CERTIFICATE_URL: certificate(rsa_key(number=1))})
    read = make_reader(shelf, elapsed=lambda: seconds)
    body = body_of(sign(notification()))
    for seconds in (0.0, 3600.0):  # noqa: B007 (the clock reads it)
        with pytest.raises(NotGenuine, match="bad_signature"):
            read({}, body)
    assert len(shelf.asked) == 1
    shelf.pems = {CERTIFICATE_URL: certificate()}
    seconds = 3601.0
    assert read({}, body)
    assert len(shelf.asked) == 2
    forged = body_of(sign(notification(), key=rsa_key(number=1)))
    with pytest.raises(NotGenuine, match="bad_signature"):
        read({}, forged)
    assert len(shelf.asked) == 2


@pytest.mark.parametrize(
    ("arn", "host"),
    [
        ("arn:aws:sns:us-east-1:1:t", "sns.us-east-1.amazonaws.com"),
        ("arn:aws-us-gov:sns:us-gov-west-1:1:t", "sns.us-gov-west-1.amazonaws.com"),
        ("arn:aws-cn:sns:cn-north-1:1:t", "sns.cn-north-1.amazonaws.com.cn"),
        ("arn:aws-eusc:sns:eusc-de-east-1:1:t", "sns.eusc-de-east-1.amazonaws.eu"),
        ("arn:aws:sns::1:t", None),
        ("arn:aws:sns:evil.example/:1:t", None),
        ("arn:aws:sns:eu-west-1", None),
        ("", None),
    ],
)
def test_the_host_of_a_topic_s_certificate_follows_from_its_region(arn, host):
    assert sns.signing_host(arn) == host
