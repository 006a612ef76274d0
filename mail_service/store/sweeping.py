"""The look before a sweep: one statement that says whether the many would find anything."""

from dataclasses import dataclass

from mail_service.store.database import Tx

SWEEP = "sweep"
WHOLE = "whole sweep"
MATCHED = "events_matched"

_LOCK = 7_205_519_340_026_414  # an advisory lock of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What there is to do: for a sweep, and for whoever tells SES's suppression list."""

    chores: bool
    list_changes: bool


def take_sweep(tx: Tx) -> bool:
    """Take the right to sweep for this transaction; False while somebody sweeps."""
    return tx.value(bool, "SELECT pg_try_advisory_xact_lock(%s)", (_LOCK,))


def look(
    tx: Tx,
    *,
    whole_every_seconds: float,
    quiet_seconds: float,
    fresh_seconds: float,
    fixed_rate: float | None,
    confirm_subscriptions: bool,
) -> Look | None:
    """Record a sweep and say what it would find; None while somebody else sweeps.

    Each line stands for a chore that can't wait, by the condition of the chore's own statement. The
    others, and whatever a line should miss, come with the whole sweep.
    """
    return tx.one(
        Look,
        """
        WITH turn AS MATERIALIZED (
            SELECT pg_try_advisory_xact_lock(%(lock)s) AS ours
        ), beat AS (
            INSERT INTO mail_service.heartbeats (name, at)
            SELECT %(sweep)s, mail_service.clock() FROM turn WHERE ours
            ON CONFLICT (name) DO UPDATE SET at = mail_service.clock()
        )
        SELECT
            NOT EXISTS (SELECT FROM mail_service.heartbeats
                        WHERE name = %(whole)s
                          AND at > mail_service.clock() - make_interval(secs => %(whole_every)s))
            OR EXISTS (SELECT FROM mail_service.email_outbox
                       WHERE state = 'sending' AND lease_expires_at < mail_service.clock())
            OR EXISTS (SELECT FROM mail_service.email_outbox o
                       WHERE state = 'ambiguous'
                         AND EXISTS (SELECT FROM mail_service.send_attempts a
                                     WHERE a.email_id = o.id AND a.state = 'accepted'))
            OR EXISTS (SELECT FROM mail_service.email_outbox o
                       WHERE state = 'ambiguous' AND on_ambiguous = 'resend'
                         AND NOT EXISTS (
                             SELECT FROM mail_service.send_attempts a
                             WHERE a.email_id = o.id AND a.started_at
                                   > mail_service.clock() - make_interval(secs => %(quiet)s)))
            OR EXISTS (SELECT FROM mail_service.ses_events e
                       WHERE status = 'unmatched'
                         AND received_at >= COALESCE(
                             (SELECT at FROM mail_service.heartbeats WHERE name = %(matched)s)
                             - make_interval(secs => %(fresh)s), '-infinity')
                         AND (EXISTS (SELECT FROM mail_service.send_attempts a
                                      WHERE a.provider_message_id = e.provider_message_id)
                           OR EXISTS (SELECT FROM mail_service.send_attempts a
                                      WHERE a.id = e.request_tag::uuid)))
            OR %(confirm)s AND EXISTS (SELECT FROM mail_service.sns_subscriptions
                                       WHERE state = 'offered' AND token IS NOT NULL)
            OR EXISTS (SELECT FROM mail_service.send_rate
                       WHERE per_second <> %(rate)s::double precision)
            AS chores,
            EXISTS (SELECT FROM mail_service.suppressions
                    WHERE ses_state IN ('pending_put', 'pending_delete')
                      AND ses_next_at <= mail_service.clock()) AS list_changes
        FROM turn WHERE ours
        """,
        {
            "lock": _LOCK,
            "sweep": SWEEP,
            "whole": WHOLE,
            "whole_every": whole_every_seconds,
            "quiet": quiet_seconds,
            "matched": MATCHED,
            "fresh": fresh_seconds,
            "confirm": confirm_subscriptions,
            "rate": fixed_rate,
        },
    )
