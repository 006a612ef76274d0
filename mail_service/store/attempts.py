"""Attempts: one row per call to SES. Certainty about a call only grows; a saved MessageId stays."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb

from mail_service.domain.states import Attempt, AttemptState
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is now known of one attempt, to be written."""

    attempt_id: UUID
    state: AttemptState
    provider_message_id: str | None
    decision: str
    resolved_by: str | None
    error_class: str | None = None
    error_code: str | None = None
    hold_scope: str | None = None
    call_ended: bool = False


def newest(tx: Tx, email_ids: Sequence[UUID]) -> dict[UUID, Attempt]:
    """Give the newest attempt of each email, by the email's id."""
    found = tx.all(
        Attempt,
        """
        SELECT DISTINCT ON (email_id) id, email_id, number, epoch, state, provider_message_id
        FROM mail_service.send_attempts
        WHERE email_id = ANY(%s) ORDER BY email_id, number DESC
        """,
        (list(email_ids),),
    )
    return {attempt.email_id: attempt for attempt in found}


def still_allowed(tx: Tx, attempt_ids: Sequence[UUID]) -> set[UUID]:
    """Give those attempts whose every recipient may still be written to (the last look before a call)."""
    return set(
        tx.values(
            UUID,
            """
            SELECT a.id FROM unnest(%s::uuid[]) AS a (id)
            -- Counted, and asked as in the claim: a plan made early would read whole tables.
            WHERE 0 = (
                SELECT count(*) FROM mail_service.attempt_recipients ar
                JOIN mail_service.email_recipients r ON r.id = ar.recipient_id
                WHERE ar.attempt_id = a.id
                  AND 0 < (SELECT count(*) FROM mail_service.suppressions s
                           WHERE s.address_hash = r.address_hash
                             AND COALESCE(s.released_at, 'infinity') = 'infinity'))
            """,
            (list(attempt_ids),),
        )
    )


def learn(tx: Tx, findings: Sequence[Finding]) -> None:
    """Write what is now known. The email rows are locked by the caller.

    The texts about an error belong to the state they came with: they are kept when an acceptance
    supersedes them, so that a known duplicate or a wrong refusal stays visible.
    """
    if not findings:
        return
    tx.run(
        """
        UPDATE mail_service.send_attempts a
        SET state = f.state,
            provider_message_id = COALESCE(a.provider_message_id, f.provider_message_id),
            decision = f.decision,
            resolved_by = CASE WHEN a.state = f.state THEN a.resolved_by ELSE f.resolved_by END,
            error_class = COALESCE(f.error_class, a.error_class),
            error_code = COALESCE(f.error_code, a.error_code),
            hold_scope = COALESCE(f.hold_scope, a.hold_scope),
            finished_at = CASE WHEN f.call_ended
                               THEN COALESCE(a.finished_at, mail_service.clock())
                               ELSE a.finished_at END
        FROM jsonb_to_recordset(%(findings)s) AS f (
            attempt_id uuid, state mail_service.attempt_state, provider_message_id text,
            decision text, resolved_by text, error_class text, error_code text, hold_scope text,
            call_ended boolean)
        -- The ids are given as well, so that a plan made while the table was small does not read all of it.
        WHERE a.id = f.attempt_id AND a.id = ANY(%(ids)s)
        """,
        {
            "findings": Jsonb([_row(finding) for finding in findings]),
            "ids": [finding.attempt_id for finding in findings],
        },
    )


def _row(finding: Finding) -> dict[str, object]:
    return {
        "attempt_id": str(finding.attempt_id),
        "state": finding.state,
        "provider_message_id": finding.provider_message_id,
        "decision": finding.decision,
        "resolved_by": finding.resolved_by,
        "error_class": finding.error_class,
        "error_code": finding.error_code,
        "hold_scope": finding.hold_scope,
        "call_ended": finding.call_ended,
    }


def settle_by_operator(tx: Tx, attempt_id: UUID) -> None:
    """Record that an operator says SES took this call. What we know of it ourselves stays as it is."""
    tx.run(
        """
        UPDATE mail_service.send_attempts SET resolved_by = 'operator', decision = 'submitted'
        WHERE id = %s
        """,
        (attempt_id,),
    )
