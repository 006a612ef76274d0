"""The figures of events: what waits, what was never heard of, and what came."""

from collections.abc import Mapping
from dataclasses import dataclass

from mail_service.store.database import Tx
from mail_service.store.stats import Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Events that found no attempt, and calls that SES accepted in the last day and no event speaks of."""

    unmatched: int
    oldest_unmatched_seconds: float | None
    unconfirmed: int
    unconfirmed_by_age: Mapping[str, int]
    oldest_unconfirmed_seconds: float | None


def events(tx: Tx) -> Events:
    """Give events that wait for their attempt, and accepted calls that no event spoke of yet."""
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
            FROM (
                SELECT extract(epoch FROM mail_service.clock() - a.started_at)::double precision
                           AS age
                FROM mail_service.send_attempts a
                WHERE a.state = 'accepted'
                  AND a.started_at > mail_service.clock() - interval '24 hours'
                  AND NOT EXISTS (SELECT FROM mail_service.ses_events e WHERE e.attempt_id = a.id)
            ) quiet
        ) c
        """,
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found


def by_kind(tx: Tx) -> list[Counted]:
    """Give how many events came in the last hour, by kind; ``other`` is what SES has invented since."""
    return tx.all(
        Counted,
        """
        SELECT kind::text AS label, count(*) AS count FROM mail_service.ses_events
        WHERE received_at > mail_service.clock() - interval '1 hour' GROUP BY 1 ORDER BY 1
        """,
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
