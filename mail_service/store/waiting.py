"""Events that have found no call: which may have one by now, and which are given up."""

from collections.abc import Sequence

from mail_service.store.database import Tx
from mail_service.store.events import StoredEvent

_STORED = "id, kind, status, provider_message_id, request_tag, facts, received_at"


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
    """Lock unmatched events of these ages for which an attempt of ours is known by now.

    One value of two subqueries keeps the planner to the indexes, where two EXISTS may be hashed whole.
    """
    return tx.all(
        StoredEvent,
        f"""
        SELECT {_STORED} FROM mail_service.ses_events e
        WHERE status = 'unmatched'
          AND received_at >= mail_service.clock() - make_interval(secs => %(oldest)s)
          AND received_at <= mail_service.clock() - make_interval(secs => %(newest)s)
          AND COALESCE((SELECT a.id FROM mail_service.send_attempts a
                        WHERE a.provider_message_id = e.provider_message_id),
                       (SELECT a.id FROM mail_service.send_attempts a
                        WHERE a.id = e.request_tag::uuid)) IS NOT NULL
        ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        """,
        {"oldest": oldest_seconds, "newest": newest_seconds, "limit": limit},
    )


def give_up(tx: Tx, *, older_than_seconds: float, limit: int) -> int:
    """Call unmatched events foreign after a while; they are still matched if their id turns up."""
    return tx.run(
        """
        UPDATE mail_service.ses_events SET status = 'foreign'
        WHERE id = ANY(ARRAY(
            SELECT id FROM mail_service.ses_events
            WHERE status = 'unmatched'
              AND received_at < mail_service.clock() - make_interval(secs => %s)
            ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED))
        """,
        (older_than_seconds, limit),
    )
