"""What SES writes into a notification, read into facts.

SES speaks two dialects: event publishing (``eventType``, ``mail.tags``) and identity notifications
(``notificationType``, no tags). Both are read by one set of rules, from the Amazon SES Developer
Guide, "Contents of event data that Amazon SES publishes to Amazon SNS" and "Amazon SNS notification
contents for Amazon SES". Any field may be missing or of any type: what can't be used is None.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TypeGuard

from mail_service.domain.events import (
    EventKind,
    Fact,
    FactKind,
    Notice,
    ProviderEvent,
    Reading,
    Unreadable,
)
from mail_service.domain.reported_address import reported_key
from mail_service.domain.strict_json import read_time, strict_loads

_KINDS = {
    "send": EventKind.SEND,
    "delivery": EventKind.DELIVERY,
    "bounce": EventKind.BOUNCE,
    "complaint": EventKind.COMPLAINT,
    "reject": EventKind.REJECT,
    "deliverydelay": EventKind.DELIVERY_DELAY,
    "renderingfailure": EventKind.RENDERING_FAILURE,
    "open": EventKind.OPEN,
    "click": EventKind.CLICK,
    "subscription": EventKind.SUBSCRIPTION,
    "received": EventKind.RECEIVED,
}

_OBJECT_OF = {
    EventKind.DELIVERY_DELAY: "deliveryDelay",
    EventKind.RENDERING_FAILURE: "failure",
}
"""The member that holds an event's own details, where it is not called like the kind."""

_TOPIC_VALIDATED = "Successfully validated SNS topic"  # plain text, on adding an event destination
_SUBSCRIPTION_SUCCEEDED = "AmazonSnsSubscriptionSucceeded"  # on switching identity feedback on

_CANONICAL_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MESSAGE_ID_DOMAIN = re.compile(r"@[a-z0-9-]+\.amazonses\.com$")
_MAX_MESSAGE_ID = 256
_MAX_WORD = 64


def read_event(text: str, *, tag_name: str, tag_header: str) -> Reading:
    """Say what the text of a genuine notification is. Never raises, whatever the text.

    ``tag_name`` is the mail tag, and ``tag_header`` the header, in which our attempt's tag stands.
    An object without ``mail`` is unreadable (EventBridge's form is one): no SES event lacks it.
    """
    if text.startswith(_TOPIC_VALIDATED):
        return Notice()
    try:
        event = strict_loads(text)
    except ValueError:
        return Unreadable("not JSON that we accept")
    if not _is_object(event):
        return Unreadable("JSON, but not an object")
    name = _kind_name(event)
    if name == _SUBSCRIPTION_SUCCEEDED:
        return Notice()
    mail = event.get("mail")
    if not _is_object(mail):
        return Unreadable("an object without mail")
    kind = _KINDS.get(name.lower().replace(" ", "").replace("_", ""), EventKind.OTHER)
    detail = _object(event.get(_OBJECT_OF.get(kind, kind.value)))
    at = read_time(detail.get("timestamp")) or read_time(mail.get("timestamp"))
    read_facts = _FACTS.get(kind)
    facts = read_facts(detail, at) if read_facts else ()
    return ProviderEvent(
        kind=kind,
        provider_message_id=_message_id(mail.get("messageId")),
        request_tag=_request_tag(mail, tag_name, tag_header),
        occurred_at=at,
        facts=tuple(dict.fromkeys(facts)),
    )


def _kind_name(event: Mapping[str, object]) -> str:
    """Give the event's own name for its kind; event publishing's wins where both stand."""
    for key in ("eventType", "notificationType"):
        name = event.get(key)
        if isinstance(name, str):
            return name
    return ""


def _message_id(value: object) -> str | None:
    """Give the bare id: Message-ID headers add a domain that the API's answer does not have."""
    if not isinstance(value, str) or len(value) > _MAX_MESSAGE_ID:
        return None
    bare = _MESSAGE_ID_DOMAIN.sub("", value)
    return bare if bare and all("!" <= c <= "~" for c in bare) else None


def _request_tag(mail: Mapping[str, object], tag_name: str, tag_header: str) -> str | None:
    """Give our attempt's tag, if the event carries one in the only form we write.

    Mail tags are set by the caller of SES alone, so where there are any they decide alone. An
    absent, null or empty ``tags`` is "no tags"; anything else is tags, also what we can't read.
    The same header with two values says nothing.
    """
    tags = mail.get("tags")
    if tags is not None and tags != {}:
        values = _list(_object(tags).get(tag_name))
        return _canonical(values[0]) if len(values) == 1 else None
    seen = {
        value.strip() if isinstance(value, str) else ""
        for header in map(_object, _list(mail.get("headers")))
        if isinstance(name := header.get("name"), str) and name.lower() == tag_header.lower()
        for value in [header.get("value")]
    }
    return _canonical(seen.pop()) if len(seen) == 1 else None


def _canonical(value: object) -> str | None:
    found = isinstance(value, str) and _CANONICAL_UUID.fullmatch(value)
    return found[0] if found else None


def _delivered(detail: Mapping[str, object], at: datetime | None) -> Iterator[Fact]:
    for recipient in _list(detail.get("recipients")):
        address = _address(recipient)
        if address is not None:
            yield Fact(kind=FactKind.DELIVERED, address=address, at=at)


def _bounced(detail: Mapping[str, object], at: datetime | None) -> Iterator[Fact]:
    for address, entry in _entries(detail, "bouncedRecipients"):
        yield Fact(
            kind=FactKind.BOUNCED,
            address=address,
            at=at,
            type=_word(detail.get("bounceType")),
            subtype=_word(detail.get("bounceSubType")),
            action=_word(entry.get("action")),
        )


def _complained(detail: Mapping[str, object], at: datetime | None) -> Iterator[Fact]:
    for address, _ in _entries(detail, "complainedRecipients"):
        yield Fact(
            kind=FactKind.COMPLAINED,
            address=address,
            at=at,
            type=_word(detail.get("complaintFeedbackType")),
            subtype=_word(detail.get("complaintSubType")),
        )


def _delayed(detail: Mapping[str, object], at: datetime | None) -> Iterator[Fact]:
    for address, _ in _entries(detail, "delayedRecipients"):
        yield Fact(kind=FactKind.DELAYED, address=address, at=at)


def _rejected(_: Mapping[str, object], at: datetime | None) -> Iterator[Fact]:
    yield Fact(kind=FactKind.REJECTED, address=None, at=at)


_FACTS: Mapping[EventKind, Callable[[Mapping[str, object], datetime | None], Iterator[Fact]]] = {
    EventKind.DELIVERY: _delivered,
    EventKind.BOUNCE: _bounced,
    EventKind.COMPLAINT: _complained,
    EventKind.DELIVERY_DELAY: _delayed,
    EventKind.REJECT: _rejected,
    EventKind.RENDERING_FAILURE: _rejected,
}


def _entries(detail: Mapping[str, object], name: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    for entry in map(_object, _list(detail.get(name))):
        address = _address(entry.get("emailAddress"))
        if address is not None:
            yield address, entry


def _address(value: object) -> str | None:
    return reported_key(value) if isinstance(value, str) else None


def _word(value: object) -> str | None:
    """Give SES's word if it is one: printable (no NUL, no lone surrogate), 64 characters at most.

    A longer one is None rather than cut: a cut word would be ours, not SES's.
    """
    if isinstance(value, str) and 0 < len(value) <= _MAX_WORD and value.isprintable():
        return value
    return None


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _object(value: object) -> Mapping[str, object]:
    return value if _is_object(value) else {}


def _list(value: object) -> list[object]:
    return value if _is_list(value) else []
