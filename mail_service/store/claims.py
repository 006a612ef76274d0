"""The claim: due emails become leased, each with a committed attempt, in one statement.

A wave takes what is due, lane by lane, within the shared rate, and leaves out whatever a hold stops;
a probe takes one email that a hold stops. Both go through the same second half, so every rule about
suppression, time and attempts holds for either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from mail_service.domain.holding import WIDEST_FIRST
from mail_service.domain.outcomes import HoldScope
from mail_service.store.database import Tx
from mail_service.store.holds import stops
from mail_service.store.waves import DUE_IN_A_WAVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One email under our lease, with all that its call needs; addresses in order."""

    attempt_id: UUID
    email_id: UUID
    number: int
    template: str
    template_checksum: str
    template_version: str
    sender: str
    sender_address: str
    reply_to: list[str]
    headers: list[tuple[str, str]]
    data: dict[str, Any]
    recipients: list[tuple[str, str]]
    lane: int
    was_due: datetime | None
    """When it was due; None where only the lease is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a claim is bound by; seconds throughout."""

    lease: float
    max_age: float
    configuration_set: str | None


_DUE_AS_A_PROBE: LiteralString = f"""
    WITH rate AS MATERIALIZED (
        SELECT tokens FROM mail_service.send_rate FOR UPDATE
    ), due AS MATERIALIZED (
        SELECT o.* FROM mail_service.email_outbox o
        WHERE o.id = (
            SELECT p.id FROM mail_service.email_outbox p, LATERAL (
                SELECT count(*) AS others, COALESCE(bool_or(
                           array_position(%(widest_first)s::mail_service.hold_scope[], h.scope)
                           < array_position(%(widest_first)s::mail_service.hold_scope[],
                                            %(scope)s::mail_service.hold_scope)), false) AS wider
                FROM mail_service.holds h
                WHERE h.id <> %(hold)s AND {stops("p")}) stopped
            WHERE p.state = 'pending' AND p.next_attempt_at <= mail_service.clock()
              AND (%(sender)s::text IS NULL OR p.sender_address = %(sender)s)
              AND (%(template)s::text IS NULL OR p.template_version = %(template)s)
              AND NOT stopped.wider
            ORDER BY stopped.others, p.sender_address IS NOT DISTINCT FROM %(not_by)s, p.lane,
                     p.next_attempt_at
            LIMIT 1 FOR UPDATE OF p SKIP LOCKED)
"""

_LEASE: LiteralString = """
    ), timed AS MATERIALIZED (
        SELECT id, epoch, attempts, recipient_count, lane, next_attempt_at,
               CASE WHEN not_after <= mail_service.clock() THEN 'not_after_passed'
                    WHEN due_at + make_interval(secs => %(max_age)s) <= mail_service.clock()
                    THEN 'maximum_age_passed' END AS late
        FROM due
    ), addressed AS MATERIALIZED (
        SELECT r.id, r.email_id, r.position, r.kind, r.address,
               -- Not EXISTS, and not as a partial index says it: a plan made early would read them all.
               (SELECT count(*) > 0 FROM mail_service.suppressions s
                WHERE s.address_hash = r.address_hash
                  AND COALESCE(s.released_at, 'infinity') = 'infinity') AS suppressed
        FROM mail_service.email_recipients r JOIN timed ON timed.id = r.email_id
        WHERE timed.late IS NULL
    ), verdict AS MATERIALIZED (
        SELECT timed.id, timed.epoch, timed.attempts + 1 AS number, timed.late,
               timed.recipient_count, timed.lane, timed.next_attempt_at,
               CASE WHEN timed.late IS NOT NULL THEN 'failed'
                    WHEN (SELECT bool_and(a.suppressed) FROM addressed a
                          WHERE a.email_id = timed.id) THEN 'suppressed'
                    ELSE 'sending' END::mail_service.email_state AS state,
               (%(ids)s::uuid[])[row_number() OVER ()] AS attempt_id
        FROM timed
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
    ), spent AS (
        UPDATE mail_service.send_rate s
        SET tokens = rate.tokens - used.recipients, filled_at = mail_service.clock(),
            day_left = s.day_left - used.recipients
        FROM rate, (SELECT sum(recipient_count) AS recipients FROM verdict
                    WHERE state = 'sending') used
        WHERE used.recipients IS NOT NULL
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
        -- The state is named in a way that no partial index answers to: the rows are locked, and known
        -- by their ids.
        FROM verdict v
        WHERE o.id = v.id AND o.id = ANY (ARRAY(SELECT id FROM verdict)) AND o.state::text = 'pending'
        RETURNING o.id, o.state, o.template, o.template_checksum, o.template_version, o.sender,
                  o.sender_address
    ), journal AS (
        INSERT INTO mail_service.email_transitions
            (email_id, from_state, to_state, actor, attempt_id)
        SELECT moved.id, 'pending', moved.state, 'worker',
               CASE moved.state WHEN 'sending' THEN v.attempt_id END
        FROM moved JOIN verdict v ON v.id = moved.id
    )
    SELECT v.attempt_id, v.id AS email_id, v.number, moved.template, moved.template_checksum,
           moved.template_version, moved.sender, moved.sender_address, p.reply_to, p.headers, p.data,
           (SELECT jsonb_agg(jsonb_build_array(a.kind, a.address) ORDER BY a.position)
            FROM addressed a WHERE a.email_id = v.id AND NOT a.suppressed) AS recipients,
           v.lane, v.next_attempt_at AS was_due
    FROM verdict v
    JOIN moved ON moved.id = v.id
    JOIN mail_service.email_payloads p ON p.email_id = v.id
    WHERE v.state = 'sending'
"""


def claim(
    tx: Tx,
    *,
    attempt_ids: Sequence[UUID],
    reserved: int,
    terms: Terms,
    since: Sequence[datetime | None] = (),
) -> list[Claimed]:
    """Lease up to as many due emails as there are ids; gives those to call SES for.

    One statement, so that the suppression check sees every suppression committed before it began
    (S10). Emails past their time fail, emails whose every recipient is suppressed end there, and a
    suppressed recipient among others is left out of this call. ``reserved`` places go to each lower
    lane that has work, before the lanes above it are served. Rows due before ``since``, which is given
    lane by lane, are passed over.
    """
    return tx.all(
        Claimed,
        DUE_IN_A_WAVE + _LEASE,
        {
            "ids": list(attempt_ids),
            "limit": len(attempt_ids),
            "reserved": reserved,
            "since": list(since),
            "lease": terms.lease,
            "max_age": terms.max_age,
            "configuration_set": terms.configuration_set,
        },
    )


def claim_probe(
    tx: Tx,
    *,
    attempt_id: UUID,
    hold_id: UUID,
    scope: HoldScope,
    sender: str | None,
    template: str | None,
    not_by: str | None,
    terms: Terms,
) -> Claimed | None:
    """Lease one due email that a hold stops, and no wider hold; None when there is none.

    Narrowed to a sender or a template version where the hold is about one. An email that nothing else
    stops goes first, then one by another sender than ``not_by``. Of the holds that stop one email the
    widest is probed first, so that two of them never wait for each other.
    """
    return tx.one(
        Claimed,
        _DUE_AS_A_PROBE + _LEASE,
        {
            "ids": [attempt_id],
            "hold": hold_id,
            "scope": scope,
            "widest_first": list(WIDEST_FIRST),
            "sender": sender,
            "template": template,
            "not_by": not_by,
            "lease": terms.lease,
            "max_age": terms.max_age,
            "configuration_set": terms.configuration_set,
        },
    )


def held_by(tx: Tx, attempt_ids: Sequence[UUID]) -> list[Claimed]:
    """Give the emails that these attempts hold now: what a claim did whose answer was lost."""
    return tx.all(
        Claimed,
        """
        SELECT a.id AS attempt_id, o.id AS email_id, a.number, o.template, o.template_checksum,
               o.template_version, o.sender, o.sender_address, p.reply_to, p.headers, p.data,
               (SELECT jsonb_agg(jsonb_build_array(r.kind, r.address) ORDER BY r.position)
                FROM mail_service.attempt_recipients ar
                JOIN mail_service.email_recipients r ON r.id = ar.recipient_id
                WHERE ar.attempt_id = a.id) AS recipients,
               o.lane, NULL::timestamptz AS was_due
        FROM mail_service.send_attempts a
        -- One by one: a plan made early would read all of them for a join.
        JOIN LATERAL (SELECT * FROM mail_service.email_outbox
                      WHERE id = a.email_id OFFSET 0) o ON o.lease_token = a.id
        JOIN LATERAL (SELECT reply_to, headers, data FROM mail_service.email_payloads
                      WHERE email_id = o.id OFFSET 0) p ON true
        WHERE a.id = ANY(%s)
        """,
        (list(attempt_ids),),
    )
