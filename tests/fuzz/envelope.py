"""Only what was signed is believed, whatever the bytes; and a header can only make it be refused."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache

from mail_service.domain.events import Envelope, Notification, SubscriptionOffer, UnsubscribeNotice
from mail_service.errors import EnvelopeRefused
from tests.signing import (
    body_of,
    certificate,
    confirmation,
    make_reader,
    notification,
    sign,
)

HOST = "https://sns.eu-west-1.amazonaws.com"
Read = Callable[[Mapping[str, str], bytes], Envelope]

CAUSES = {
    *("too_large", "not_json", "raw_delivery", "bad_field", "control_character", "bad_time"),
    *("unknown_type", "header_mismatch", "foreign_topic", "certificate_address"),
    *("signature_version", "bad_signature"),
}
NAMES = (
    *("Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp", "SignatureVersion"),
    *("Signature", "SigningCertURL", "SigningCertUrl", "UnsubscribeURL", "Token", "SubscribeURL"),
)
TOKENS = (
    *(f'"{name}":' for name in NAMES),
    *("Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation", "null", "NaN"),
    *("\\u0000", "\\ud800", "\\n", "1e999", '"2"', "[[", "{}", ".pem", "2026-07-29T12:01:01.000Z"),
)


@cache
def genuine() -> tuple[dict[str, object], ...]:
    """Give the only messages that were ever signed."""
    return (
        sign(notification('{"eventType":"Send","mail":{"messageId":"m"}}')),
        sign(notification("x\r\n\tü ✉ \U0001f600", MessageId="with-text")),
        sign(notification("b", Subject="a subject, ü", MessageId="with-subject")),
        sign(confirmation()),
        sign(confirmation("UnsubscribeConfirmation", MessageId="gone")),
    )


def as_read(signed: Mapping[str, object], at: datetime) -> Envelope:
    """Give what a reader must make of it."""
    topic, number = str(signed["TopicArn"]), str(signed["MessageId"])
    match signed["Type"]:
        case "Notification":
            text = str(signed["Message"])
            return Notification(topic_arn=topic, sns_message_id=number, at=at, text=text)
        case "SubscriptionConfirmation":
            token = str(signed["Token"])
            return SubscriptionOffer(topic_arn=topic, sns_message_id=number, at=at, token=token)
        case _:
            return UnsubscribeNotice(topic_arn=topic, sns_message_id=number, at=at)


@cache
def _said() -> frozenset[Envelope]:
    return frozenset(
        as_read(signed, datetime.fromisoformat(str(signed["Timestamp"]))) for signed in genuine()
    )


@cache
def reader() -> Read:
    """Give a reader of our topic to whom every file of its host is the signer's certificate."""

    def fetch(address: str) -> bytes:
        assert address.startswith(f"{HOST}/SimpleNotificationService-"), f"{address!r} was asked"
        return certificate()

    return make_reader(fetch)


def answer(read: Read, headers: Mapping[str, str], body: bytes) -> Envelope | str:
    """Give the envelope, or the cause of its refusal; nothing else may come out."""
    try:
        return read(headers, body)
    except EnvelopeRefused as refused:
        cause = refused.cause
    assert cause in CAUSES, cause
    return cause


def check(data: bytes, read: Read | None = None) -> None:
    """Hold the promise above against this body."""
    read = read or reader()
    plain = answer(read, {}, data)
    assert isinstance(plain, str) or plain in _said(), "believed, but never signed"
    named = answer(read, {"x-amz-sns-message-type": "Notification"}, data)
    assert isinstance(named, str) or named == plain, "a header made it believable"


def seeds() -> Iterator[bytes]:
    """Give what was signed, and what is nearly that."""
    for signed in genuine():
        yield body_of(signed)
        yield json.dumps(signed, indent=1).encode()
    first = genuine()[0]
    yield body_of(first | {"Subject": None})
    yield body_of(first)[:-1] + b',"Type":"Notification"}'
    yield body_of({"SigningCertUrl" if k == "SigningCertURL" else k: v for k, v in first.items()})
    yield b'{"eventType":"Send","mail":{}}'
    yield b"[" * 40 + b"]" * 40
