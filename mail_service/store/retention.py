"""What is deleted when its days are over, in bounded steps that never read the same history twice.

A step walks along an index by time from where the last one came to, and what it finds there that is
old enough loses what is no longer needed. Where a walk came to stands in ``heartbeats``.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from mail_service.store.database import Tx

COUNTED_DAYS = 30
"""How long counters by the hour are kept, and looks at SES's suppression list. Figures show one day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step walked over and changed. ``at`` and ``id`` are the last it came to, None at the end.

    ``left`` is the earliest of those that somebody held just then, and that are to be met again.
    """

    walked: int
    changed: int
    at: datetime | None
    id: UUID | None
    left: datetime | None


Place = tuple[datetime, UUID]


def _step(
    tx: Tx,
    *,
    table: LiteralString,
    time: LiteralString,
    due: LiteralString,
    erase: LiteralString,
    older_than_days: int,
    after: Place,
    limit: int,
) -> Step:
    """Walk over ``limit`` rows, and ``erase`` what the ``due`` ones among them have.

    Their rows are locked, and looked at again once they are: a person may requeue an email in the same
    moment. Ids go from one part to the next as arrays, which keeps the planner to the indexes.
    """
    step = tx.one(
        Step,
        f"""
        WITH walked AS MATERIALIZED (
            SELECT id, {time} AS at FROM {table}
            WHERE ({time}, id) > (%(at)s, %(id)s)
              AND {time} < mail_service.clock() - make_interval(days => %(days)s)
            ORDER BY {time}, id LIMIT %(limit)s
        ), due AS MATERIALIZED (
            SELECT id, at FROM walked WHERE id = ANY(ARRAY(
                {due} = ANY(ARRAY(SELECT id FROM walked))))
        ), held AS MATERIALIZED (
            SELECT id FROM {table}
            WHERE id = ANY(ARRAY(SELECT id FROM due))
              AND {time} < mail_service.clock() - make_interval(days => %(days)s)
            FOR UPDATE SKIP LOCKED
        ), changed AS (
            {erase} = ANY(ARRAY(SELECT id FROM held)) RETURNING 1
        ), last AS (
            SELECT at, id FROM walked ORDER BY at DESC, id DESC LIMIT 1
        )
        SELECT (SELECT count(*) FROM walked) AS walked, (SELECT count(*) FROM changed) AS changed,
               (SELECT at FROM last) AS at, (SELECT id FROM last) AS id,
               (SELECT min(at) FROM due WHERE id NOT IN (SELECT id FROM held)) AS left
        """,
        {"days": older_than_days, "at": after[0], "id": after[1], "limit": limit},
    )
    if step is None:
        raise LookupError("the statement gave no row")
    return step


def erase_contents(tx: Tx, *, older_than_days: int, after: Place, limit: int) -> Step:
    """Delete template data, reply addresses and headers of emails that ended this long ago."""
    return _step(
        tx,
        table="mail_service.email_outbox",
        time="finished_at",
        due="SELECT email_id FROM mail_service.email_payloads WHERE email_id",
        erase="DELETE FROM mail_service.email_payloads WHERE email_id",
        older_than_days=older_than_days,
        after=after,
        limit=limit,
    )


def erase_addresses(tx: Tx, *, older_than_days: int, after: Place, limit: int) -> Step:
    """Forget the recipients' addresses of emails that ended this long ago; their keyed hashes stay."""
    return _step(
        tx,
        table="mail_service.email_outbox",
        time="finished_at",
        due="""SELECT email_id FROM mail_service.email_recipients
               WHERE address IS NOT NULL AND email_id""",
        erase="""UPDATE mail_service.email_recipients SET address = NULL
                 WHERE address IS NOT NULL AND email_id""",
        older_than_days=older_than_days,
        after=after,
        limit=limit,
    )


def erase_payloads(tx: Tx, *, older_than_days: int, after: Place, limit: int) -> Step:
    """Delete the raw texts of events that came this long ago; what was read from them stays."""
    return _step(
        tx,
        table="mail_service.ses_events",
        time="received_at",
        due="SELECT id FROM mail_service.ses_events WHERE payload IS NOT NULL AND id",
        erase="UPDATE mail_service.ses_events SET payload = NULL WHERE id",
        older_than_days=older_than_days,
        after=after,
        limit=limit,
    )


def forget_strangers(tx: Tx, *, older_than_days: int, limit: int) -> int:
    """Delete events that found no call of ours in this long, whole; gives how many."""
    return tx.run(
        """
        DELETE FROM mail_service.ses_events WHERE id = ANY(ARRAY(
            SELECT id FROM mail_service.ses_events
            WHERE status IN ('foreign', 'unmatched')
              AND received_at < mail_service.clock() - make_interval(days => %s)
            LIMIT %s FOR UPDATE SKIP LOCKED))
        """,
        (older_than_days, limit),
    )


def erase_late_payloads(tx: Tx) -> int:
    """Delete the texts of events about mail to whoever was erased meanwhile; gives how many."""
    return tx.run(
        """
        UPDATE mail_service.ses_events SET payload = NULL WHERE id = ANY(ARRAY(
            SELECT e.id FROM mail_service.erased_addresses f
            JOIN mail_service.email_recipients r
              ON r.address_hash = f.address_hash AND r.address IS NULL
            JOIN mail_service.attempt_recipients ar ON ar.recipient_id = r.id
            JOIN mail_service.ses_events e ON e.attempt_id = ar.attempt_id
            WHERE e.payload IS NOT NULL FOR UPDATE OF e SKIP LOCKED))
        """
    )


def forget_counters(tx: Tx) -> int:
    """Delete counters of hours long past; gives how many. There are a few for each hour."""
    params = (COUNTED_DAYS,)
    return tx.run(
        """
        DELETE FROM mail_service.payload_allowances
        WHERE hour < mail_service.clock() - make_interval(days => %s)
        """,
        params,
    ) + tx.run(
        """
        DELETE FROM mail_service.webhook_rejections
        WHERE hour < mail_service.clock() - make_interval(days => %s)
        """,
        params,
    )


def forget_syncs(tx: Tx) -> int:
    """Delete old looks at SES's suppression list, but the last of each kind that came to its end."""
    return tx.run(
        """
        DELETE FROM mail_service.suppression_syncs
        WHERE finished_at < mail_service.clock() - make_interval(days => %s)
          AND id NOT IN (SELECT DISTINCT ON (scope) id FROM mail_service.suppression_syncs
                         WHERE finished_at IS NOT NULL AND error IS NULL
                         ORDER BY scope, started_at DESC)
        """,
        (COUNTED_DAYS,),
    )


def reached(tx: Tx, walk: str) -> datetime | None:
    """Give the time up to which a walk has come; None before the first."""
    return tx.maybe(datetime, "SELECT at FROM mail_service.heartbeats WHERE name = %s", (walk,))


def reach(tx: Tx, walk: str, at: datetime) -> None:
    """Record the time up to which a walk has come."""
    tx.run(
        """
        INSERT INTO mail_service.heartbeats (name, at) VALUES (%s, %s)
        ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at
        """,
        (walk, at),
    )
