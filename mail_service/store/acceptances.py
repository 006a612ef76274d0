"""The acceptance of calls whose claim still stands, in one statement: nearly every result is one."""

from collections.abc import Mapping
from uuid import UUID

from mail_service.store.database import Tx


def accept(tx: Tx, calls: Mapping[UUID, UUID], message_ids: Mapping[UUID, str]) -> set[UUID]:
    """Write that SES took these calls under these MessageIds; gives those that are done with.

    Given are the email and the MessageId of each attempt. What met anything but the claim itself is left
    as it is, for :mod:`outbox` and :mod:`attempts`: an email that somebody holds or that left our lease,
    an attempt of which something is known, a probe, a MessageId that an event waits for or another call
    has, and everything while a run of unknown outcomes is counted. Each row is looked at once more when
    it is locked, so what its last holder wrote is seen.
    """
    return set(
        tx.values(
            UUID,
            """
            WITH brought AS MATERIALIZED (
                SELECT b.attempt_id, b.message_id
                FROM unnest(%(attempts)s::uuid[], %(message_ids)s::text[]) AS b (attempt_id, message_id)
                WHERE (SELECT unknowns_in_a_row FROM mail_service.send_rate) = 0
                  -- Each a value, not an anti-join, for which a plan made early may read the whole table.
                  AND (SELECT s.id FROM mail_service.send_attempts s
                       WHERE s.provider_message_id = b.message_id) IS NULL
                  AND (SELECT e.id FROM mail_service.ses_events e
                       WHERE e.status IN ('unmatched', 'foreign')
                         AND e.provider_message_id = b.message_id LIMIT 1) IS NULL
                  AND (SELECT h.id FROM mail_service.holds h
                       WHERE h.probe_attempt_id = b.attempt_id AND h.cleared_at IS NULL LIMIT 1) IS NULL
            ), ours AS MATERIALIZED (
                SELECT o.id, o.lease_token FROM mail_service.email_outbox o
                WHERE o.id = ANY(%(emails)s::uuid[])
                ORDER BY o.id FOR UPDATE SKIP LOCKED
            ), accepted AS (
                UPDATE mail_service.send_attempts a
                SET state = 'accepted', provider_message_id = b.message_id, decision = 'submitted',
                    resolved_by = 'worker', finished_at = mail_service.clock()
                FROM ours JOIN brought b ON b.attempt_id = ours.lease_token
                -- The ids are given as well: else a plan made while the table was small reads all of it.
                WHERE a.id = b.attempt_id AND a.id = ANY(%(attempts)s::uuid[]) AND a.state = 'started'
                RETURNING a.id, a.email_id
            ), moved AS (
                UPDATE mail_service.email_outbox o
                SET state = 'submitted', reason = NULL, policy_note = NULL,
                    lease_token = NULL, lease_expires_at = NULL, finished_at = mail_service.clock()
                FROM accepted
                WHERE o.id = accepted.email_id AND o.id = ANY(%(emails)s::uuid[])
                  AND o.lease_token = accepted.id
                RETURNING o.id AS email_id, accepted.id
            ), journal AS (
                INSERT INTO mail_service.email_transitions
                    (email_id, from_state, to_state, actor, attempt_id)
                SELECT email_id, 'sending', 'submitted', 'worker', id FROM moved
            )
            SELECT id FROM moved
            """,
            {
                "attempts": list(message_ids),
                "message_ids": list(message_ids.values()),
                "emails": list(calls.values()),
            },
        )
    )
