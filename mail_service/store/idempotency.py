"""Stored answers by idempotency key, and the lock by which a twin in flight is known."""

from dataclasses import dataclass
from uuid import UUID

from mail_service.store.database import Tx

KEPT_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What was answered the first time."""

    body_hash: bytes
    status: int
    answer: str


def take(tx: Tx, lock: int) -> bool:
    """Take a key for this transaction; False while a twin has it. The lock dies with the transaction."""
    return tx.value(bool, "SELECT pg_try_advisory_xact_lock(%s)", (lock,))


def find(tx: Tx, *, api_key_id: UUID, route: str, key_hash: bytes) -> StoredAnswer | None:
    """Give the stored answer, unless it is older than a day."""
    return tx.one(
        StoredAnswer,
        """
        SELECT body_hash, status, answer FROM mail_service.idempotent_answers
        WHERE api_key_id = %s AND route = %s AND key_hash = %s
          AND created_at > mail_service.clock() - make_interval(hours => %s)
        """,
        (api_key_id, route, key_hash, KEPT_HOURS),
    )


def save(tx: Tx, *, api_key_id: UUID, route: str, key_hash: bytes, stored: StoredAnswer) -> None:
    """Store an answer, over one that has passed its day."""
    tx.run(
        """
        INSERT INTO mail_service.idempotent_answers
            (api_key_id, route, key_hash, body_hash, status, answer)
        VALUES (%s, %s, %s, %s, %s, %s)
        ON CONFLICT (api_key_id, route, key_hash)
        DO UPDATE SET body_hash = EXCLUDED.body_hash, status = EXCLUDED.status,
                      answer = EXCLUDED.answer, created_at = mail_service.clock()
        """,
        (api_key_id, route, key_hash, stored.body_hash, stored.status, stored.answer),
    )


def forget(tx: Tx, limit: int) -> int:
    """Delete answers that have passed their day; gives how many."""
    return tx.run(
        """
        DELETE FROM mail_service.idempotent_answers
        WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM mail_service.idempotent_answers
            WHERE created_at < mail_service.clock() - make_interval(hours => %s)
            ORDER BY created_at LIMIT %s))
        """,
        (KEPT_HOURS, limit),
    )
