"""The figures of events: what waits, what was never heard of, and what came."""

from collections.abc import Mapping
from dataclasses import dataclass

from mail_service.store.database import Tx
from mail_service.store.stats import NEWEST, Counted

LOOKED_AT = 2_000
"""Of so many calls of each age it is looked at whether an event spoke of them."""

JUDGED = 5_000
"""Over so many calls bounces and complaints are counted."""

BOUNCE_REVIEW, COMPLAINT_REVIEW = 0.05, 0.001
"""From these rates on AWS reviews an account; at twice the first and five times the second it may stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Events that found no attempt, and calls that SES accepted in the last day and no event speaks of."""

    unmatched: int
    oldest_unmatched_seconds: float | None
    unconfirmed: int
    unconfirmed_by_age: Mapping[str, int]
    oldest_unconfirmed_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reputation:
    """Which share of the recipients last written to bounced or complained; None where there are none."""

    recipients: int
    bounce_rate: float | None
    complaint_rate: float | None


def events(tx: Tx) -> Events:
    """Give events that wait for their attempt, and accepted calls that no event spoke of yet.

    Of each age the newest calls are looked at: silence that lasts shows there, and a day may have millions.
    """
    found = tx.one(
        Events,
        """
        SELECT u.unmatched, u.oldest_unmatched_seconds, c.unconfirmed, c.unconfirmed_by_age,
               c.oldest_unconfirmed_seconds
        FROM (
            SELECT count(*) AS unmatched,
                   extract(epoch FROM mail_service.clock() - min(received_at))::double precision
                       AS oldest_unmatched_seconds
            FROM mail_service.ses_events WHERE status = 'unmatched'
        ) u, (
            SELECT count(*) AS unconfirmed,
                   json_build_object(
                       'under 1 min', count(*) FILTER (WHERE age < 60),
                       '1 to 15 min', count(*) FILTER (WHERE age >= 60 AND age < 900),
                       '15 min to 1 h', count(*) FILTER (WHERE age >= 900 AND age < 3600),
                       'over 1 h', count(*) FILTER (WHERE age >= 3600)) AS unconfirmed_by_age,
                   max(age) AS oldest_unconfirmed_seconds
            FROM (VALUES (0, 60), (60, 900), (900, 3600), (3600, 86400)) AS ages (youngest, oldest),
            LATERAL (
                SELECT extract(epoch FROM mail_service.clock() - a.started_at)::double precision
                           AS age
                FROM (SELECT id, state, started_at FROM mail_service.send_attempts
                      WHERE started_at > mail_service.clock() - make_interval(secs => oldest)
                        AND started_at <= mail_service.clock() - make_interval(secs => youngest)
                      ORDER BY started_at DESC LIMIT %s) a
                -- The limit keeps the planner from reading all events for these few calls.
                LEFT JOIN LATERAL (SELECT true AS heard FROM mail_service.ses_events e
                                   WHERE e.attempt_id = a.id LIMIT 1) told ON true
                WHERE a.state = 'accepted' AND told.heard IS NULL
            ) quiet
        ) c
        """,
        (LOOKED_AT,),
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found


def reputation(tx: Tx) -> Reputation:
    """Give the rates by which AWS judges an account, over the newest calls that SES accepted.

    As AWS counts: permanent bounces, but none that SES's own list caused, and complaints of persons.
    """
    found = tx.one(
        Reputation,
        """
        SELECT count(*) AS recipients,
               avg((bounced_at IS NOT NULL AND bounce_type = 'Permanent'
                    AND bounce_subtype IS DISTINCT FROM 'OnAccountSuppressionList')::int
                  )::double precision AS bounce_rate,
               avg((complained_at IS NOT NULL
                    AND COALESCE(complaint_type, '') NOT IN ('not-spam', 'auth-failure'))::int
                  )::double precision AS complaint_rate
        FROM mail_service.email_recipients
        WHERE id = ANY(ARRAY(
            SELECT recipient_id FROM mail_service.attempt_recipients
            WHERE attempt_id = ANY(ARRAY(
                SELECT id FROM mail_service.send_attempts WHERE state = 'accepted'
                ORDER BY started_at DESC LIMIT %s))))
        """,
        (JUDGED,),
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found


def by_kind(tx: Tx) -> list[Counted]:
    """Give how many events came in the last hour, by kind; ``other`` is what SES has invented since."""
    return tx.all(
        Counted,
        """
        SELECT kind::text AS label, count(*) AS count
        FROM (SELECT kind FROM mail_service.ses_events
              WHERE received_at > mail_service.clock() - interval '1 hour'
              ORDER BY received_at DESC LIMIT %s) newest
        GROUP BY 1 ORDER BY 1
        """,
        (NEWEST,),
    )


def dropped_payloads(tx: Tx) -> list[Counted]:
    """Give how many payloads were not kept in the last day, by pool."""
    return tx.all(
        Counted,
        """
        SELECT pool AS label, sum(dropped)::bigint AS count FROM mail_service.payload_allowances
        WHERE hour > mail_service.clock() - interval '24 hours'
        GROUP BY 1 HAVING sum(dropped) > 0 ORDER BY 1
        """,
    )


def subscriptions(tx: Tx) -> list[Counted]:
    """Give how many subscriptions SNS told us of, by what became of them."""
    return tx.all(
        Counted,
        """
        SELECT state::text AS label, count(*) AS count FROM mail_service.sns_subscriptions
        GROUP BY 1 ORDER BY 1
        """,
    )
