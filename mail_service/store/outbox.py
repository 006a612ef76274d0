"""The statements that can move an email, each with its guard and its line in the journal.

A statement that moves emails writes ``email_transitions`` in the same breath, so that no move can
happen without its row; so do the claim in :mod:`claims` and the plain acceptance in :mod:`acceptances`.
Each names what it relies on: the lease token where the email is leased, else the state it leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb

from mail_service.domain.sending import Move
from mail_service.domain.states import Email, EmailState
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One move to be written: which email, from which state, and on whose attempt."""

    email: Email
    move: Move
    attempt_id: UUID | None


_EMAIL = """
    SELECT o.id, o.state, o.epoch, o.lease_token, o.attempts, o.refusals, o.deferrals,
           EXISTS (SELECT FROM mail_service.send_attempts a
                   WHERE a.email_id = o.id AND a.state = 'accepted') AS accepted
    FROM mail_service.email_outbox o
"""


def lock(tx: Tx, email_id: UUID) -> Email | None:
    """Lock one email's row and give what decisions need to know. Waits for whoever holds it."""
    # The lock comes first and the reading after it, in a statement with a snapshot of its own:
    # otherwise what the last holder wrote about attempts would not be seen.
    if not tx.run("SELECT FROM mail_service.email_outbox WHERE id = %s FOR UPDATE", (email_id,)):
        return None
    return tx.one(Email, _EMAIL + "WHERE o.id = %s", (email_id,))


def free(tx: Tx, email_ids: Sequence[UUID]) -> list[UUID]:
    """Lock those of the emails that nobody holds now; gives them."""
    return tx.values(
        UUID,
        """
        SELECT id FROM mail_service.email_outbox WHERE id = ANY(%s)
        ORDER BY id FOR UPDATE SKIP LOCKED
        """,
        (list(email_ids),),
    )


def lock_free(tx: Tx, email_ids: Sequence[UUID]) -> dict[UUID, Email]:
    """Lock those of the emails that nobody holds now, and give what decisions need to know."""
    ids = free(tx, email_ids)
    return {e.id: e for e in tx.all(Email, _EMAIL + "WHERE o.id = ANY(%s)", (ids,))}


def expired(tx: Tx, limit: int) -> dict[UUID, Email]:
    """Lock emails whose lease has ended, oldest first, leaving out those that somebody holds."""
    ids = tx.values(
        UUID,
        """
        SELECT id FROM mail_service.email_outbox
        WHERE state = 'sending' AND lease_expires_at < mail_service.clock()
        ORDER BY lease_expires_at LIMIT %s FOR UPDATE SKIP LOCKED
        """,
        (limit,),
    )
    return {e.id: e for e in tx.all(Email, _EMAIL + "WHERE o.id = ANY(%s)", (ids,))}


def proved(tx: Tx, limit: int) -> dict[UUID, Email]:
    """Lock emails in doubt of which an attempt is known to be accepted."""
    ids = tx.values(
        UUID,
        """
        SELECT id FROM mail_service.email_outbox o
        WHERE state = 'ambiguous'
          AND EXISTS (SELECT FROM mail_service.send_attempts a
                      WHERE a.email_id = o.id AND a.state = 'accepted')
        ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
        """,
        (limit,),
    )
    return {e.id: e for e in tx.all(Email, _EMAIL + "WHERE o.id = ANY(%s)", (ids,))}


def move(tx: Tx, steps: Sequence[Step], actor: str) -> list[UUID]:
    """Move locked emails; gives those moved. Leased ones by their token, others by the state they leave.

    The token is cleared whenever a lease ends, so id and token are check enough; naming the state as
    well would send the planner into a partial index full of dead entries (research on churn).
    """
    if not steps:
        return []
    return tx.values(
        UUID,
        """
        WITH step AS MATERIALIZED (
            SELECT * FROM jsonb_to_recordset(%(steps)s) AS s (
                id uuid, from_state mail_service.email_state, token uuid,
                to_state mail_service.email_state, reason text, wait double precision,
                refusals integer, deferrals integer, attempt_id uuid, epoch integer, demoted boolean)
        ), moved AS (
            UPDATE mail_service.email_outbox o
            SET state = s.to_state, reason = s.reason,
                lease_token = NULL, lease_expires_at = NULL,
                refusals = s.refusals, deferrals = s.deferrals, policy_note = NULL,
                -- A decision to send again opens a new epoch, which is due from now on.
                due_at = CASE WHEN s.epoch > o.epoch THEN mail_service.clock() ELSE o.due_at END,
                epoch = s.epoch, demoted = o.demoted OR s.demoted,
                next_attempt_at = mail_service.clock() + make_interval(secs => s.wait),
                finished_at = CASE WHEN s.to_state IN ('submitted', 'failed', 'suppressed', 'cancelled')
                                   THEN mail_service.clock() END
            FROM step s
            -- The ids are given as well: else a plan made while the table was small reads all of it.
            WHERE o.id = s.id AND o.id = ANY(%(ids)s)
              AND CASE WHEN s.token IS NOT NULL THEN o.lease_token = s.token
                       ELSE o.state = s.from_state END
            RETURNING o.id
        ), journal AS (
            INSERT INTO mail_service.email_transitions
                (email_id, from_state, to_state, actor, attempt_id)
            SELECT s.id, s.from_state, s.to_state, %(actor)s, s.attempt_id
            FROM step s JOIN moved ON moved.id = s.id
        )
        SELECT id FROM moved
        """,
        {
            "steps": Jsonb([_row(step) for step in steps]),
            "ids": [step.email.id for step in steps],
            "actor": actor,
        },
    )


def _row(step: Step) -> dict[str, object]:
    email, move = step.email, step.move
    pending = move.to is EmailState.PENDING
    return {
        "id": str(email.id),
        "from_state": email.state,
        "token": _text(email.lease_token),
        "to_state": move.to,
        "reason": move.reason,
        "wait": move.wait_seconds,
        "refusals": move.refusals if pending else email.refusals,
        "deferrals": move.deferrals if pending else email.deferrals,
        "attempt_id": _text(step.attempt_id),
        "epoch": email.epoch + move.new_epoch,
        "demoted": move.demoted,
    }


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
