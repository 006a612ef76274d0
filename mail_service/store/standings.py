"""What the results of a group of calls are weighed with, read once all their emails are locked."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from mail_service.domain.states import Attempt, AttemptState, Email, EmailState
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One call's email and attempt as they stand, and what else its result touches."""

    email: Email
    attempt: Attempt
    message_id_taken: bool
    """Another call holds the MessageId that this one's result brings."""
    probes: bool
    """An open hold waits for the end of this call."""
    unknowns_in_a_row: int
    """Unknown outcomes since the last acceptance, of all workers."""
    recorded: bool
    """What this call ended in is written: the answer to that commit was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    id: UUID
    state: EmailState
    epoch: int
    lease_token: UUID | None
    attempts: int
    refusals: int
    deferrals: int
    accepted: bool
    attempt_id: UUID
    number: int
    attempt_epoch: int
    attempt_state: AttemptState
    provider_message_id: str | None
    message_id_taken: bool
    probes: bool
    unknowns_in_a_row: int
    recorded: bool


def of_calls(tx: Tx, results: Mapping[UUID, str | None]) -> dict[UUID, Standing]:
    """Give what each call's result meets, by attempt; given are the MessageIds they bring.

    A statement of its own after the one that locked the emails: it must see what whoever held them
    last has written about their attempts.
    """
    rows = tx.all(
        _Row,
        """
        SELECT o.id, o.state, o.epoch, o.lease_token, o.attempts, o.refusals, o.deferrals,
               -- Counted: for EXISTS, a plan made while the table was small may read all of it.
               (SELECT count(*) > 0 FROM mail_service.send_attempts s
                WHERE s.email_id = o.id AND s.state = 'accepted') AS accepted,
               a.id AS attempt_id, a.number, a.epoch AS attempt_epoch, a.state AS attempt_state,
               a.provider_message_id, a.finished_at IS NOT NULL AS recorded,
               EXISTS (SELECT FROM mail_service.send_attempts h
                       WHERE h.provider_message_id = r.message_id AND h.id <> a.id)
                   AS message_id_taken,
               EXISTS (SELECT FROM mail_service.holds h
                       WHERE h.probe_attempt_id = a.id AND h.cleared_at IS NULL) AS probes,
               (SELECT unknowns_in_a_row FROM mail_service.send_rate)
        FROM unnest(%(ids)s::uuid[], %(message_ids)s::text[]) AS r (attempt_id, message_id)
        -- The ids once more, so that a plan made while the table was small does not read all of it.
        JOIN mail_service.send_attempts a ON a.id = r.attempt_id AND a.id = ANY(%(ids)s::uuid[])
        JOIN LATERAL (SELECT * FROM mail_service.email_outbox
                      WHERE id = a.email_id OFFSET 0) o ON true
        """,
        {"ids": list(results), "message_ids": list(results.values())},
    )
    return {row.attempt_id: _standing(row) for row in rows}


def _standing(row: _Row) -> Standing:
    return Standing(
        email=Email(
            id=row.id,
            state=row.state,
            epoch=row.epoch,
            lease_token=row.lease_token,
            attempts=row.attempts,
            refusals=row.refusals,
            deferrals=row.deferrals,
            accepted=row.accepted,
        ),
        attempt=Attempt(
            id=row.attempt_id,
            email_id=row.id,
            number=row.number,
            epoch=row.attempt_epoch,
            state=row.attempt_state,
            provider_message_id=row.provider_message_id,
        ),
        message_id_taken=row.message_id_taken,
        probes=row.probes,
        unknowns_in_a_row=row.unknowns_in_a_row,
        recorded=row.recorded,
    )
