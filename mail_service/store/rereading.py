"""Events that are read again: what is kept of them, and what a later reader made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from mail_service.domain.events import EventKind, EventStatus
from mail_service.store.database import Tx
from mail_service.store.events import StoredEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of an event that is to be read again. ``payload`` None: only the facts are left."""

    id: UUID
    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    attempt_id: UUID | None
    occurred_at: datetime
    received_at: datetime
    facts: list[dict[str, Any]]
    payload: str | None


_KEPT = """id, kind, status, provider_message_id, request_tag, attempt_id, occurred_at, received_at,
           facts, payload"""


def count(tx: Tx, status: EventStatus, *, until: datetime) -> int:
    """Give how many events that had come by a time are understood this far."""
    return tx.value(
        int,
        "SELECT count(*) FROM mail_service.ses_events WHERE status = %s AND received_at <= %s",
        (status, until),
    )


def to_read_again(
    tx: Tx,
    status: EventStatus,
    *,
    after: tuple[datetime, UUID] | None,
    until: datetime,
    limit: int,
) -> list[Kept]:
    """Lock events understood this far, oldest first, between a place in that order and a time.

    What somebody else works on is left out: it is being matched, or read again, already.
    """
    at, last = after if after is not None else (None, None)
    return tx.all(
        Kept,
        f"""
        SELECT {_KEPT} FROM mail_service.ses_events
        WHERE status = %(status)s AND received_at <= %(until)s
          AND (%(at)s::timestamptz IS NULL OR (received_at, id) > (%(at)s, %(last)s::uuid))
        ORDER BY received_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        """,
        {"status": status, "at": at, "last": last, "until": until, "limit": limit},
    )


def forget(tx: Tx, named: Mapping[UUID, Sequence[bytes]]) -> int:
    """Delete the texts of locked events that name a mailbox whose owner asked to be forgotten.

    Gives how many. There may be some from the moment of the erasure itself.
    """
    pairs = [(event_id, mailbox) for event_id, mailboxes in named.items() for mailbox in mailboxes]
    return tx.run(
        """
        UPDATE mail_service.ses_events SET payload = NULL WHERE id = ANY(ARRAY(
            SELECT n.id FROM unnest(%(ids)s::uuid[], %(named)s::bytea[]) n (id, address_hash)
            JOIN mail_service.erased_addresses f USING (address_hash)))
        """,
        {"ids": [pair[0] for pair in pairs], "named": [pair[1] for pair in pairs]},
    )


def rewrite(tx: Tx, event: StoredEvent, occurred_at: datetime) -> None:
    """Write what today's reader made of a locked event that was read before."""
    tx.run(
        """
        UPDATE mail_service.ses_events
        SET kind = %(kind)s, status = %(status)s, provider_message_id = %(message_id)s,
            request_tag = %(tag)s, occurred_at = %(occurred_at)s, facts = %(facts)s
        WHERE id = %(id)s
        """,
        {
            "id": event.id,
            "kind": event.kind,
            "status": event.status,
            "message_id": event.provider_message_id,
            "tag": event.request_tag,
            "occurred_at": occurred_at,
            "facts": Jsonb(event.facts),
        },
    )
