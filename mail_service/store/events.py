"""Events: every genuine notification, once, and what was read from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from mail_service.domain.events import EventKind, EventStatus, FactKind
from mail_service.domain.facts import KnownFact
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to be stored."""

    id: UUID
    topic_arn: str
    sns_message_id: str
    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    occurred_at: datetime
    facts: tuple[KnownFact, ...]
    payload: str | None  # None: over the hour's share of events that found no call


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """What matching needs of a stored event."""

    id: UUID
    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    facts: list[dict[str, Any]]

    def known_facts(self) -> list[KnownFact]:
        """The facts as the domain merges them."""
        return [_read(fact) for fact in self.facts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One event as a list shows it."""

    id: UUID
    topic_arn: str
    sns_message_id: str
    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    attempt_id: UUID | None
    occurred_at: datetime
    received_at: datetime


def written(facts: Sequence[KnownFact]) -> list[dict[str, Any]]:
    """Give facts in the form in which they are stored."""
    return [_write(fact) for fact in facts]


def _write(fact: KnownFact) -> dict[str, Any]:
    return {
        "kind": fact.kind.value,
        "hash": fact.address_hash.hex() if fact.address_hash is not None else None,
        "at": fact.at.isoformat(),
        "type": fact.type,
        "subtype": fact.subtype,
        "action": fact.action,
    }


def _read(fact: dict[str, Any]) -> KnownFact:
    return KnownFact(
        kind=FactKind(fact["kind"]),
        address_hash=bytes.fromhex(fact["hash"]) if fact["hash"] is not None else None,
        at=datetime.fromisoformat(fact["at"]),
        type=fact["type"],
        subtype=fact["subtype"],
        action=fact["action"],
    )


def add(tx: Tx, event: NewEvent) -> bool:
    """Store an event; False when it is stored already."""
    return bool(
        tx.run(
            """
            INSERT INTO mail_service.ses_events
                (id, topic_arn, sns_message_id, kind, status, provider_message_id, request_tag,
                 occurred_at, facts, payload)
            VALUES (%(id)s, %(topic_arn)s, %(sns_message_id)s, %(kind)s, %(status)s,
                    %(provider_message_id)s, %(request_tag)s, %(occurred_at)s, %(facts)s,
                    %(payload)s)
            ON CONFLICT (topic_arn, sns_message_id) DO NOTHING
            """,
            {
                "id": event.id,
                "topic_arn": event.topic_arn,
                "sns_message_id": event.sns_message_id,
                "kind": event.kind,
                "status": event.status,
                "provider_message_id": event.provider_message_id,
                "request_tag": event.request_tag,
                "occurred_at": event.occurred_at,
                "facts": Jsonb(written(event.facts)),
                "payload": event.payload,
            },
        )
    )


def known(tx: Tx, topic_arn: str, sns_message_id: str) -> bool:
    """Say whether an event is stored."""
    return tx.value(
        bool,
        """
        SELECT EXISTS (SELECT FROM mail_service.ses_events
                       WHERE topic_arn = %s AND sns_message_id = %s)
        """,
        (topic_arn, sns_message_id),
    )


def settle(tx: Tx, event_id: UUID, status: EventStatus, attempt_id: UUID | None) -> None:
    """Record how far an event was understood; the attempt is given exactly when it is matched."""
    tx.run(
        "UPDATE mail_service.ses_events SET status = %s, attempt_id = %s WHERE id = %s",
        (status, attempt_id, event_id),
    )


_STORED = "id, kind, status, provider_message_id, request_tag, facts"


def waiting_for(tx: Tx, *, message_ids: Sequence[str]) -> list[StoredEvent]:
    """Lock the stored events that name one of these MessageIds and are not matched yet.

    Events that were given up as another application's are among them: the id shows that they are ours.
    """
    return tx.all(
        StoredEvent,
        f"""
        SELECT {_STORED} FROM mail_service.ses_events
        WHERE status IN ('unmatched', 'foreign') AND provider_message_id = ANY(%s)
        ORDER BY received_at, id FOR UPDATE SKIP LOCKED
        """,
        (list(message_ids),),
    )


def matchable(
    tx: Tx, *, oldest_seconds: float, newest_seconds: float, limit: int
) -> list[StoredEvent]:
    """Lock unmatched events of these ages for which an attempt of ours is known by now."""
    return tx.all(
        StoredEvent,
        f"""
        SELECT {_STORED} FROM mail_service.ses_events e
        WHERE status = 'unmatched'
          AND received_at >= mail_service.clock() - make_interval(secs => %(oldest)s)
          AND received_at <= mail_service.clock() - make_interval(secs => %(newest)s)
          AND (EXISTS (SELECT FROM mail_service.send_attempts a
                       WHERE a.provider_message_id = e.provider_message_id)
            OR EXISTS (SELECT FROM mail_service.send_attempts a WHERE a.id = e.request_tag::uuid))
        ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        """,
        {"oldest": oldest_seconds, "newest": newest_seconds, "limit": limit},
    )


def give_up(tx: Tx, *, older_than_seconds: float, limit: int) -> int:
    """Call unmatched events foreign after a while; they are still matched if their id turns up."""
    return tx.run(
        """
        UPDATE mail_service.ses_events SET status = 'foreign'
        WHERE id IN (SELECT id FROM mail_service.ses_events
                     WHERE status = 'unmatched'
                       AND received_at < mail_service.clock() - make_interval(secs => %s)
                     ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED)
        """,
        (older_than_seconds, limit),
    )


def page(
    tx: Tx, *, status: EventStatus | None, after: tuple[datetime, UUID] | None, limit: int
) -> list[Listed]:
    """Give events newest first, starting after a place in that order."""
    at, last = after if after is not None else (None, None)
    return tx.all(
        Listed,
        """
        SELECT id, topic_arn, sns_message_id, kind, status, provider_message_id, request_tag,
               attempt_id, occurred_at, received_at
        FROM mail_service.ses_events
        WHERE (%(status)s::mail_service.event_status IS NULL OR status = %(status)s)
          AND (%(at)s::timestamptz IS NULL OR (received_at, id) < (%(at)s, %(last)s::uuid))
        ORDER BY received_at DESC, id DESC LIMIT %(limit)s
        """,
        {"status": status, "at": at, "last": last, "limit": limit},
    )


def silent_seconds(tx: Tx) -> float | None:
    """Give for how long accepted mail has waited since which no event of any kind came; None if none has.

    Counted from the call's claim: an event may come before the call is recorded as accepted.
    """
    return tx.maybe(
        float,
        """
        SELECT extract(epoch FROM mail_service.clock() - min(started_at))::double precision
        FROM mail_service.send_attempts
        WHERE state = 'accepted'
          AND started_at > mail_service.clock() - interval '24 hours'
          AND started_at > COALESCE((SELECT max(received_at) FROM mail_service.ses_events),
                                    '-infinity'::timestamptz)
        """,
    )
