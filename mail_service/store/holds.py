"""Holds: why sending stops for an account, a sender, a configuration set, a template or the endpoint."""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from mail_service.domain.outcomes import HoldScope
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One hold, open while ``cleared_at`` is None."""

    id: UUID
    scope: HoldScope
    subject: str
    error_class: str
    error_code: str | None
    opened_at: datetime
    probes: int
    next_probe_at: datetime | None
    probe_attempt_id: UUID | None
    probed_sender: str | None
    cleared_at: datetime | None
    cleared_by: str | None
    clear_reason: str | None


def stops(email: LiteralString) -> LiteralString:
    """Give the condition that the open hold ``h`` stops an outbox row of this alias.

    Takes the parameter ``configuration_set``.
    """
    return f"""
        h.cleared_at IS NULL
        AND (h.scope IN ('account', 'endpoint')
             OR (h.scope = 'configuration_set' AND h.subject = %(configuration_set)s)
             OR (h.scope = 'sender' AND h.subject = {email}.sender_address)
             OR (h.scope = 'template' AND h.subject = {email}.template_version))
    """


_COLUMNS = """id, scope, subject, error_class, error_code, opened_at, probes, next_probe_at,
              probe_attempt_id, probed_sender, cleared_at, cleared_by, clear_reason"""


def open_hold(
    tx: Tx,
    *,
    hold_id: UUID,
    scope: HoldScope,
    subject: str,
    error_class: str,
    error_code: str | None,
    first_probe_seconds: float,
    probed_sender: str | None,
) -> bool:
    """Open a hold; False when it is open already, then only what is known of it is renewed."""
    return tx.value(
        bool,
        """
        INSERT INTO mail_service.holds AS h
            (id, scope, subject, error_class, error_code, next_probe_at, probed_sender)
        VALUES (%(id)s, %(scope)s, %(subject)s, %(error_class)s, %(error_code)s,
                mail_service.clock() + make_interval(secs => %(wait)s), %(sender)s)
        ON CONFLICT (scope, subject) WHERE cleared_at IS NULL
        DO UPDATE SET error_class = EXCLUDED.error_class, error_code = EXCLUDED.error_code
        RETURNING h.id = %(id)s
        """,
        {
            "id": hold_id,
            "scope": scope,
            "subject": subject,
            "error_class": error_class,
            "error_code": error_code,
            "wait": first_probe_seconds,
            "sender": probed_sender,
        },
    )


def due_for_a_probe(tx: Tx) -> list[Hold]:
    """Lock the open holds that may be probed now: time is up and no probe is under way."""
    return tx.all(
        Hold,
        f"""
        SELECT {_COLUMNS} FROM mail_service.holds
        WHERE cleared_at IS NULL AND probe_attempt_id IS NULL
          AND next_probe_at <= mail_service.clock()
        ORDER BY id FOR UPDATE SKIP LOCKED
        """,
    )


def begin_probe(
    tx: Tx, hold_id: UUID, *, attempt_id: UUID | None, sender: str | None, next_seconds: float
) -> None:
    """Record the probe that goes out now, or that there was no mail to probe with (no attempt)."""
    tx.run(
        """
        UPDATE mail_service.holds
        SET probe_attempt_id = %(attempt)s, probed_sender = COALESCE(%(sender)s, probed_sender),
            probes = probes + CASE WHEN %(attempt)s::uuid IS NULL THEN 0 ELSE 1 END,
            next_probe_at = mail_service.clock() + make_interval(secs => %(next)s)
        WHERE id = %(id)s AND cleared_at IS NULL
        """,
        {"id": hold_id, "attempt": attempt_id, "sender": sender, "next": next_seconds},
    )


def probed_by(tx: Tx, attempt_ids: list[UUID]) -> dict[UUID, Hold]:
    """Lock the open holds that these attempts probe, by attempt."""
    found = tx.all(
        Hold,
        f"""
        SELECT {_COLUMNS} FROM mail_service.holds
        WHERE cleared_at IS NULL AND probe_attempt_id = ANY(%s) ORDER BY id FOR UPDATE
        """,
        (attempt_ids,),
    )
    return {hold.probe_attempt_id: hold for hold in found if hold.probe_attempt_id is not None}


def let_through(tx: Tx, attempt_ids: list[UUID], *, configuration_set: str | None) -> set[UUID]:
    """Give those attempts that no open hold stops now, and those that are probes."""
    return set(
        tx.values(
            UUID,
            f"""
            SELECT a.id FROM mail_service.send_attempts a
            -- One by one: a plan made early would read all of them for a join.
            JOIN LATERAL (SELECT sender_address, template_version FROM mail_service.email_outbox
                          WHERE id = a.email_id OFFSET 0) o ON true
            WHERE a.id = ANY(%(ids)s)
              AND (EXISTS (SELECT FROM mail_service.holds h
                           WHERE h.cleared_at IS NULL AND h.probe_attempt_id = a.id)
                   OR NOT EXISTS (SELECT FROM mail_service.holds h WHERE {stops("o")}))
            """,
            {"ids": attempt_ids, "configuration_set": configuration_set},
        )
    )


def free_slot(tx: Tx, hold_id: UUID) -> None:
    """Let another probe go out when its time comes; this one told nothing."""
    tx.run(
        "UPDATE mail_service.holds SET probe_attempt_id = NULL WHERE id = %s AND cleared_at IS NULL",
        (hold_id,),
    )


def clear(tx: Tx, hold_id: UUID, *, by: str, reason: str) -> Hold | None:
    """Close an open hold; None when it was closed before."""
    return tx.one(
        Hold,
        f"""
        UPDATE mail_service.holds
        SET cleared_at = mail_service.clock(), cleared_by = %s, clear_reason = %s,
            next_probe_at = NULL, probe_attempt_id = NULL
        WHERE id = %s AND cleared_at IS NULL
        RETURNING {_COLUMNS}
        """,
        (by, reason, hold_id),
    )


def seconds_until_probe(tx: Tx) -> float | None:
    """Give the time until a hold may be probed next; None when nothing is held."""
    return tx.maybe(
        float,
        """
        SELECT extract(epoch FROM min(next_probe_at) - mail_service.clock())::double precision
        FROM mail_service.holds WHERE cleared_at IS NULL
        """,
    )


def open_now(tx: Tx) -> list[Hold]:
    """Give what stops sending now, oldest first."""
    return tx.all(
        Hold,
        f"SELECT {_COLUMNS} FROM mail_service.holds WHERE cleared_at IS NULL ORDER BY opened_at, id",
    )


def by_id(tx: Tx, hold_id: UUID) -> Hold | None:
    """Give one hold, open or not."""
    return tx.one(Hold, f"SELECT {_COLUMNS} FROM mail_service.holds WHERE id = %s", (hold_id,))
