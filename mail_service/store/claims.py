"""The claim: due emails become leased, each with a committed attempt, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One email under our lease, with all that its call needs; addresses in order."""

    attempt_id: UUID
    email_id: UUID
    number: int
    template: str
    template_checksum: str
    sender: str
    reply_to: list[str]
    data: dict[str, Any]
    recipients: list[tuple[str, str]]


def claim(
    tx: Tx, *, attempt_ids: Sequence[UUID], lease_seconds: float, max_age_seconds: float
) -> list[Claimed]:
    """Lease up to as many due emails as there are ids; gives those to call SES for.

    One statement, so that the suppression check sees every suppression committed before it began
    (S10). Emails past their time fail, emails whose every recipient is suppressed end there, and a
    suppressed recipient among others is left out of this call. The locking SELECT stands in a
    materialised CTE: without that fence the planner may lock more rows than the limit.
    """
    return tx.all(
        Claimed,
        """
        WITH due AS MATERIALIZED (
            SELECT id, epoch, attempts,
                   CASE WHEN not_after <= mail_service.clock() THEN 'not_after_passed'
                        WHEN due_at + make_interval(secs => %(max_age)s) <= mail_service.clock()
                        THEN 'maximum_age_passed' END AS late
            FROM mail_service.email_outbox
            WHERE state = 'pending' AND next_attempt_at <= mail_service.clock()
            ORDER BY next_attempt_at
            LIMIT %(limit)s
            FOR UPDATE SKIP LOCKED
        ), addressed AS MATERIALIZED (
            SELECT r.id, r.email_id, r.position, r.kind, r.address,
                   EXISTS (SELECT FROM mail_service.suppressions s
                           WHERE s.address_hash = r.address_hash
                             AND s.released_at IS NULL) AS suppressed
            FROM mail_service.email_recipients r JOIN due ON due.id = r.email_id
            WHERE due.late IS NULL
        ), verdict AS MATERIALIZED (
            SELECT due.id, due.epoch, due.attempts + 1 AS number, due.late,
                   CASE WHEN due.late IS NOT NULL THEN 'failed'
                        WHEN (SELECT bool_and(a.suppressed) FROM addressed a
                              WHERE a.email_id = due.id) THEN 'suppressed'
                        ELSE 'sending' END::mail_service.email_state AS state,
                   (%(ids)s::uuid[])[row_number() OVER ()] AS attempt_id
            FROM due
        ), attempted AS (
            INSERT INTO mail_service.send_attempts (id, email_id, number, epoch)
            SELECT attempt_id, id, number, epoch FROM verdict WHERE state = 'sending'
        ), called AS (
            INSERT INTO mail_service.attempt_recipients (attempt_id, recipient_id)
            SELECT v.attempt_id, a.id FROM verdict v JOIN addressed a ON a.email_id = v.id
            WHERE v.state = 'sending' AND NOT a.suppressed
        ), left_out AS (
            UPDATE mail_service.email_recipients r
            SET suppressed_at = mail_service.clock()
            FROM addressed a WHERE a.id = r.id AND a.suppressed
        ), moved AS (
            UPDATE mail_service.email_outbox o
            SET state = v.state,
                reason = CASE v.state WHEN 'failed' THEN v.late
                                      WHEN 'suppressed' THEN 'every_recipient_suppressed' END,
                attempts = CASE v.state WHEN 'sending' THEN v.number ELSE o.attempts END,
                next_attempt_at = NULL,
                lease_token = CASE v.state WHEN 'sending' THEN v.attempt_id END,
                lease_expires_at = CASE v.state WHEN 'sending'
                    THEN mail_service.clock() + make_interval(secs => %(lease)s) END,
                finished_at = CASE WHEN v.state <> 'sending' THEN mail_service.clock() END
            FROM verdict v WHERE o.id = v.id AND o.state = 'pending'
            RETURNING o.id, o.state, o.template, o.template_checksum, o.sender
        ), journal AS (
            INSERT INTO mail_service.email_transitions
                (email_id, from_state, to_state, actor, attempt_id)
            SELECT moved.id, 'pending', moved.state, 'worker',
                   CASE moved.state WHEN 'sending' THEN v.attempt_id END
            FROM moved JOIN verdict v ON v.id = moved.id
        )
        SELECT v.attempt_id, v.id AS email_id, v.number, moved.template, moved.template_checksum,
               moved.sender, p.reply_to, p.data,
               (SELECT jsonb_agg(jsonb_build_array(a.kind, a.address) ORDER BY a.position)
                FROM addressed a WHERE a.email_id = v.id AND NOT a.suppressed) AS recipients
        FROM verdict v
        JOIN moved ON moved.id = v.id
        JOIN mail_service.email_payloads p ON p.email_id = v.id
        WHERE v.state = 'sending'
        """,
        {
            "ids": list(attempt_ids),
            "limit": len(attempt_ids),
            "lease": lease_seconds,
            "max_age": max_age_seconds,
        },
    )
