"""What a genuine text means to us: read, with addresses as keyed hashes and every time filled in.

At ingest, and again by ``mail-service events replay``, so that both make the same of the same text.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from mail_service.domain.address import keyed_hash
from mail_service.domain.events import (
    EventKind,
    EventStatus,
    Fact,
    Notice,
    ProviderEvent,
    Unreadable,
)
from mail_service.domain.facts import KnownFact
from mail_service.domain.reported_address import named_in
from mail_service.domain.ses_json import read_event
from mail_service.ports import TAG_HEADER, TAG_NAME
from mail_service.runtime import Runtime

MOST_FACTS = 200
"""Of one event; SES takes 50 recipients a call. What another application publishes on the topic may
name any number, and a stored event is to be narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What was read from a text.

    ``why`` says what kept an unparseable one from being read; ``notice`` that it is AWS's own, on
    setting things up.
    """

    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    occurred_at: datetime
    facts: tuple[KnownFact, ...]
    why: str | None = None
    notice: bool = False


def understand(rt: Runtime, text: str, *, at: datetime) -> Understood:
    """Read a text; ``at`` stands in for times that it does not give. Never raises, whatever the text.

    The status is where matching begins: ``unmatched``, or ``foreign`` or ``unparseable`` for good.
    """
    reading = read_event(text, tag_name=TAG_NAME, tag_header=TAG_HEADER)
    match reading:
        case ProviderEvent():
            inbound = reading.kind is EventKind.RECEIVED
            return Understood(
                kind=reading.kind,
                status=EventStatus.FOREIGN if inbound else EventStatus.UNMATCHED,
                provider_message_id=reading.provider_message_id,
                request_tag=reading.request_tag,
                occurred_at=reading.occurred_at or at,
                facts=tuple(_known(rt, fact, at) for fact in reading.facts[:MOST_FACTS]),
            )
        case Notice():
            return replace(_no_event(EventStatus.FOREIGN, at), notice=True)
        case Unreadable():
            return replace(_no_event(EventStatus.UNPARSEABLE, at), why=reading.why)
        case _:
            assert_never(reading)


def named(rt: Runtime, text: str, facts: Iterable[KnownFact]) -> list[bytes]:
    """Give the keyed hashes of all mailboxes that a text names, whether it could be read or not."""
    told = {fact.address_hash for fact in facts if fact.address_hash is not None}
    return list(told | {keyed_hash(rt.address_key, key) for key in named_in(text)})


def storable(text: str) -> str:
    """Give the text itself, or as a JSON string where it holds what PostgreSQL can't store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text) if "\0" in text else text


def _no_event(status: EventStatus, at: datetime) -> Understood:
    return Understood(
        kind=EventKind.OTHER,
        status=status,
        provider_message_id=None,
        request_tag=None,
        occurred_at=at,
        facts=(),
    )


def _known(rt: Runtime, fact: Fact, at: datetime) -> KnownFact:
    return KnownFact(
        kind=fact.kind,
        address_hash=keyed_hash(rt.address_key, fact.address) if fact.address is not None else None,
        at=fact.at or at,
        type=fact.type,
        subtype=fact.subtype,
        action=fact.action,
    )
