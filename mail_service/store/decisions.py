"""Decisions about doubt: one row each, who and why, and which epoch it opened."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision to be written."""

    id: UUID
    email_id: UUID
    attempt_id: UUID | None
    decision: str
    by: str
    reason: str
    epoch_before: int
    epoch_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What a decision about an email must know besides its state. Ages in seconds by the database."""

    started_ago: float | None
    call_ended: bool
    content_there: bool
    not_after: datetime | None
    past_not_after: bool
    past_maximum_age: bool
    unfinished_calls: int
    policy_resends: int


def add(tx: Tx, decision: Decision) -> None:
    """Write a decision."""
    tx.run(
        """
        INSERT INTO mail_service.email_decisions
            (id, email_id, attempt_id, decision, decided_by, reason, epoch_before, epoch_after)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
        """,
        (
            decision.id,
            decision.email_id,
            decision.attempt_id,
            decision.decision,
            decision.by,
            decision.reason,
            decision.epoch_before,
            decision.epoch_after,
        ),
    )


def doubt(tx: Tx, email_id: UUID, *, max_age_seconds: float) -> Doubt | None:
    """Give what a decision must know about a locked email."""
    return tx.one(
        Doubt,
        """
        SELECT extract(epoch FROM mail_service.clock() - a.started_at)::double precision
                   AS started_ago,
               a.id IS NULL OR a.finished_at IS NOT NULL AS call_ended,
               EXISTS (SELECT FROM mail_service.email_payloads p WHERE p.email_id = o.id)
                   AS content_there,
               o.not_after,
               COALESCE(o.not_after <= mail_service.clock(), false) AS past_not_after,
               o.due_at + make_interval(secs => %(max_age)s) <= mail_service.clock()
                   AS past_maximum_age,
               (SELECT count(*) FROM mail_service.send_attempts u
                WHERE u.email_id = o.id AND u.finished_at IS NULL) AS unfinished_calls,
               (SELECT count(*) FROM mail_service.email_decisions d
                WHERE d.email_id = o.id AND d.decided_by = 'policy') AS policy_resends
        FROM mail_service.email_outbox o
        LEFT JOIN LATERAL (
            SELECT * FROM mail_service.send_attempts s
            WHERE s.email_id = o.id ORDER BY s.number DESC LIMIT 1) a ON true
        WHERE o.id = %(id)s
        """,
        {"id": email_id, "max_age": max_age_seconds},
    )


def set_not_after(tx: Tx, email_id: UUID, not_after: object) -> None:
    """Give a locked email a new deadline."""
    tx.run(
        "UPDATE mail_service.email_outbox SET not_after = %s WHERE id = %s", (not_after, email_id)
    )


def note(tx: Tx, email_id: UUID, why: str) -> None:
    """Say why the stated policy leaves this doubt to a person."""
    tx.run(
        """
        UPDATE mail_service.email_outbox SET policy_note = %s
        WHERE id = %s AND policy_note IS DISTINCT FROM %s
        """,
        (why, email_id, why),
    )


def for_policy(tx: Tx, *, quiet_seconds: float, limit: int) -> list[UUID]:
    """Give doubtful emails whose policy is to send again and whose last call is long enough ago."""
    return tx.values(
        UUID,
        """
        SELECT o.id FROM mail_service.email_outbox o
        WHERE o.state = 'ambiguous' AND o.on_ambiguous = 'resend'
          AND NOT EXISTS (
              SELECT FROM mail_service.send_attempts a
              WHERE a.email_id = o.id
                AND a.started_at > mail_service.clock() - make_interval(secs => %(quiet)s))
        ORDER BY o.id LIMIT %(limit)s
        """,
        {"quiet": quiet_seconds, "limit": limit},
    )


def events_arrive(tx: Tx) -> bool:
    """Whether recently accepted mail was told anything about; true where none was accepted."""
    return tx.value(
        bool,
        """
        SELECT count(*) = 0 OR bool_or(EXISTS (
                   SELECT FROM mail_service.ses_events e WHERE e.attempt_id = a.id))
        FROM (SELECT id FROM mail_service.send_attempts
              WHERE state = 'accepted'
                AND started_at BETWEEN mail_service.clock() - interval '1 hour'
                                   AND mail_service.clock() - interval '30 seconds'
              ORDER BY started_at DESC LIMIT 100) a
        """,
    )
