"""Events: every genuine notification, once, and what was read from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from mail_service.domain.events import EventKind, EventStatus, FactKind
from mail_service.domain.facts import KnownFact
from mail_service.store.database import Tx

LOCK_SECONDS = 0.25
"""How long an event that comes in waits for a row that somebody holds. SNS brings it again; meanwhile
the connection serves others. The process has two."""


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
    named: Sequence[bytes]  # the mailboxes that the payload names
    attempt_id: UUID | None = None  # given exactly when it is stored as matched

    def stored(self, received_at: datetime) -> "StoredEvent":
        """Give what matching needs of it, now that it is stored."""
        return StoredEvent(
            id=self.id,
            kind=self.kind,
            status=self.status,
            provider_message_id=self.provider_message_id,
            request_tag=self.request_tag,
            facts=written(self.facts),
            received_at=received_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """What matching needs of a stored event."""

    id: UUID
    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    facts: list[dict[str, Any]]
    received_at: datetime

    def known_facts(self) -> list[KnownFact]:
        """The facts as the domain merges them."""
        return [_read(fact) for fact in self.facts]

    def evidence_at(self, fact: KnownFact) -> datetime:
        """Give the time by which a release covers a fact: never later than we were told of it.

        A clock that is ahead would else have the fact outlive every release.
        """
        return min(fact.at, self.received_at)


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


_ITS_RECIPIENT_IS_GONE: LiteralString = """
    -- Not a join, as in recipients.in_call.
    EXISTS (SELECT FROM mail_service.email_recipients r
            WHERE r.id = ANY(ARRAY(SELECT recipient_id FROM mail_service.attempt_recipients
                                   WHERE attempt_id = %(attempt_id)s))
              AND r.address IS NULL)
"""


def add(tx: Tx, event: NewEvent) -> datetime | None:
    """Store an event; gives when it was received, None when it is stored already.

    Without its payload where that names a mailbox whose owner asked to be forgotten, or where an address
    of its call is gone.

    From here on the transaction waits for nobody's row longer than ``LOCK_SECONDS``: said in the same
    statement, because a second one would cost each event a round trip.
    """
    return tx.maybe(
        datetime,
        f"""
        INSERT INTO mail_service.ses_events
            (id, topic_arn, sns_message_id, kind, status, provider_message_id, request_tag,
             attempt_id, occurred_at, facts, payload)
        SELECT %(id)s, %(topic_arn)s, %(sns_message_id)s, %(kind)s, %(status)s,
               %(provider_message_id)s, %(request_tag)s, %(attempt_id)s, %(occurred_at)s,
               %(facts)s,
               CASE WHEN EXISTS (SELECT FROM mail_service.erased_addresses
                                 WHERE address_hash = ANY(%(named)s::bytea[]))
                      OR {_ITS_RECIPIENT_IS_GONE} THEN NULL ELSE %(payload)s END
        FROM set_config('lock_timeout', %(wait)s, true)
        ON CONFLICT (topic_arn, sns_message_id) DO NOTHING
        RETURNING received_at
        """,
        {
            "id": event.id,
            "topic_arn": event.topic_arn,
            "sns_message_id": event.sns_message_id,
            "kind": event.kind,
            "status": event.status,
            "provider_message_id": event.provider_message_id,
            "request_tag": event.request_tag,
            "attempt_id": event.attempt_id,
            "occurred_at": event.occurred_at,
            "facts": Jsonb(written(event.facts)),
            "payload": event.payload,
            "named": list(event.named),
            "wait": f"{LOCK_SECONDS * 1000:.0f}ms",
        },
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
    """Record how far an event was understood; the attempt is given exactly when it is matched.

    Its payload goes where an address of that call is gone.
    """
    tx.run(
        f"""
        UPDATE mail_service.ses_events
        SET status = %(status)s, attempt_id = %(attempt_id)s,
            payload = CASE WHEN {_ITS_RECIPIENT_IS_GONE} THEN NULL ELSE payload END
        WHERE id = %(id)s
        """,
        {"id": event_id, "status": status, "attempt_id": attempt_id},
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
