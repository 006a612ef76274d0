"""Whatever a genuine notification says, reading it gives something that can be stored and merged."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

from mail_service.domain.address import keyed_hash
from mail_service.domain.events import (
    EventKind,
    Fact,
    FactKind,
    Notice,
    ProviderEvent,
    Reading,
    Unreadable,
)
from mail_service.domain.ses_json import read_event
from mail_service.domain.strict_json import strict_loads
from tests.fuzz.inputs import EVENTS, is_utf8, text_of

TAG_NAME, TAG_HEADER = "tag", "X-Tag"
TAG = "00000000-0000-4000-8000-000000000001"
KEY = b"k" * 32
TOKENS = (
    *("eventType", "notificationType", "mail", "messageId", "timestamp", "tags", "headers", "name"),
    *(
        "value",
        "destination",
        "bounce",
        "bouncedRecipients",
        "emailAddress",
        "action",
        "bounceType",
    ),
    *("bounceSubType", "complaint", "complainedRecipients", "complaintFeedbackType", "delivery"),
    *("recipients", "deliveryDelay", "delayedRecipients", "failure", "reject", "received"),
    *("Bounce", "Complaint", "Delivery", "DeliveryDelay", "Rendering Failure", "Permanent"),
    *(
        TAG,
        '"tag":["',
        "X-Tag",
        "@example.com",
        "<a@b.example>",
        "\\u0000",
        "\\ud800",
        "\u0130",
        "rfc822;",
    ),
    *('\\"a b\\"@', "(comment)", '\\"Name\\" <'),
    *(
        "2026-07-29T12:01:01.000Z",
        "2018-10-08T14:05:45 +0000",
        "NaN",
        "1e999",
        "[[[[",
        "@ü.example",
    ),
)

Read = Callable[..., Reading]


def check(data: bytes, read: Read = read_event) -> None:
    """Hold the promise above against this text."""
    text = text_of(data)
    _reads_like_json(text)
    reading = read(text, tag_name=TAG_NAME, tag_header=TAG_HEADER)
    assert reading == read(text, tag_name=TAG_NAME, tag_header=TAG_HEADER)
    match reading:
        case ProviderEvent():
            _can_be_stored(reading)
        case Unreadable():
            assert is_utf8(reading.why)
        case _:
            assert isinstance(reading, Notice)


def _reads_like_json(text: str) -> None:
    """Where we take a text as JSON, the standard library reads the same out of it."""
    try:
        value = strict_loads(text)
    except ValueError:
        return
    assert repr(json.loads(text)) == repr(value)


def _can_be_stored(event: ProviderEvent) -> None:
    assert event.kind in EventKind
    if event.provider_message_id is not None:
        assert 0 < len(event.provider_message_id) <= 256
        assert all("!" <= c <= "~" for c in event.provider_message_id)
    if event.request_tag is not None:
        assert str(UUID(event.request_tag)) == event.request_tag
    if event.occurred_at is not None:
        assert event.occurred_at.utcoffset() == timedelta(0)
        assert 1970 <= event.occurred_at.year <= 9999
    assert len(set(event.facts)) == len(event.facts)
    for fact in event.facts:
        _is_a_fact(fact)


def _is_a_fact(fact: Fact) -> None:
    assert fact.kind in FactKind
    assert fact.at is None or fact.at.utcoffset() == timedelta(0)
    if fact.address is None:
        assert fact.kind is FactKind.REJECTED
    else:
        assert is_utf8(fact.address)
        assert "\0" not in fact.address
        assert len(keyed_hash(KEY, fact.address)) == 32
    for word in (fact.type, fact.subtype, fact.action):
        assert word is None or (0 < len(word) <= 64 and is_utf8(word) and word.isprintable())


def seeds() -> Iterator[bytes]:
    """Give the events of tests/cases, and one with our tag in each place."""
    for path in sorted(EVENTS.glob("*.json")):
        data = path.read_bytes()
        if len(data) < 4096 and path.name != "index.json":
            yield data
            yield json.dumps(json.loads(data)).encode() if _is_json(data) else data.strip()
    for mail in ({"tags": {TAG_NAME: [TAG]}}, {"headers": [{"name": TAG_HEADER, "value": TAG}]}):
        yield json.dumps({"eventType": "Send", "mail": mail}).encode()
    yield b"Successfully validated SNS topic for Amazon SES event publishing."


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
