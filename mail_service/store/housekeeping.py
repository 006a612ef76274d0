"""Small rows that keep the house: heartbeats, rejection counters, broker rows."""

from mail_service.store.database import Tx
from mail_service.store.session import CHANNEL


def beat(tx: Tx, name: str) -> None:
    """Record that something was done now."""
    tx.run(
        """
        INSERT INTO mail_service.heartbeats (name, at) VALUES (%s, mail_service.clock())
        ON CONFLICT (name) DO UPDATE SET at = mail_service.clock()
        """,
        (name,),
    )


def take_turn(tx: Tx, name: str, every_seconds: float) -> bool:
    """Record that something is done now, unless it was a shorter while ago; says whether to do it."""
    return (
        tx.run(
            """
            INSERT INTO mail_service.heartbeats AS h (name, at) VALUES (%(name)s, mail_service.clock())
            ON CONFLICT (name) DO UPDATE SET at = mail_service.clock()
            WHERE h.at <= mail_service.clock() - make_interval(secs => %(every)s)
            """,
            {"name": name, "every": every_seconds},
        )
        == 1
    )


def seconds_since(tx: Tx, name: str) -> float | None:
    """Give how long ago something was last done; None if never."""
    return tx.maybe(
        float,
        """
        SELECT extract(epoch FROM mail_service.clock() - at)::double precision
        FROM mail_service.heartbeats WHERE name = %s
        """,
        (name,),
    )


def count_rejection(tx: Tx, cause: str) -> int:
    """Count a refused webhook request, per hour and cause, no row per request; gives this hour's."""
    return tx.value(
        int,
        """
        INSERT INTO mail_service.webhook_rejections (hour, cause, count)
        VALUES (date_trunc('hour', mail_service.clock()), %s, 1)
        ON CONFLICT (hour, cause) DO UPDATE SET count = webhook_rejections.count + 1
        RETURNING count
        """,
        (cause,),
    )


def purge_broker(tx: Tx, *, older_than_seconds: float, limit: int) -> int:
    """Delete finished hints. The broker itself keeps them for thirty days."""
    if tx.maybe(str, "SELECT to_regclass('dramatiq.queue')::text") is None:
        return 0
    return tx.run(
        """
        DELETE FROM dramatiq.queue WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM dramatiq.queue
            WHERE state IN ('done', 'rejected')
              AND mtime < mail_service.clock() - make_interval(secs => %s)
            LIMIT %s))
        """,
        (older_than_seconds, limit),
    )


def wake(tx: Tx) -> None:
    """Wake every drain that listens, once this transaction commits. Carries no data."""
    tx.run(f"NOTIFY {CHANNEL}")
