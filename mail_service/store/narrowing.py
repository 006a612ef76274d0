"""What a list of emails is narrowed to, as conditions on ``mail_service.email_outbox o``."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from mail_service.domain.states import EmailState


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a list of emails is narrowed to; None means no narrowing."""

    state: EmailState | None = None
    template: str | None = None
    address_hash: bytes | None = None
    provider_message_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


_NARROWED: Mapping[str, LiteralString] = {
    "state": "o.state = %(state)s",
    "template": "o.template = %(template)s",
    "hash": """o.id IN (SELECT email_id FROM mail_service.email_recipients
                        WHERE address_hash = %(hash)s)""",
    "message_id": """o.id IN (SELECT email_id FROM mail_service.send_attempts
                              WHERE provider_message_id = %(message_id)s)""",
    "created_after": "o.created_at >= %(created_after)s",
    "created_before": "o.created_at < %(created_before)s",
    "last": "(o.created_at, o.id) < (%(at)s, %(last)s)",
}


def conditions(
    wanted: Filter, after: tuple[datetime, UUID] | None
) -> tuple[LiteralString, dict[str, Any]]:
    """Give what follows ``WHERE true``, and its parameters, for the list newest first behind a place.

    Only what is asked for is in the text: a condition that may be off hides every index.
    """
    at, last = after if after is not None else (None, None)
    params: dict[str, Any] = {
        "state": wanted.state,
        "template": wanted.template,
        "hash": wanted.address_hash,
        "message_id": wanted.provider_message_id,
        "created_after": wanted.created_after,
        "created_before": wanted.created_before,
        "at": at,
        "last": last,
    }
    asked: LiteralString = ""
    for name, text in _NARROWED.items():
        if params[name] is not None:
            asked += " AND " + text
    return asked, params
