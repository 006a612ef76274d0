"""The figures of the house, read from the tables, so that any process can answer for all."""

from dataclasses import dataclass

from mail_service.store.database import Tx

NEWEST = 50_000
"""Of the last hour, so many calls, and so many events, are counted at most, the newest ones: figures must
stay quick in the busiest hour."""

TIMED = 2_000
"""Of so many of the newest ones times are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Emails that are not at an end. Ages in seconds, None where there is nothing to be old."""

    pending: int
    pending_due: int
    oldest_due_seconds: float | None
    sending: int
    leases_expired: int
    ambiguous: int
    oldest_ambiguous_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One figure of a family."""

    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Calls to SES that began in the last hour, by what is known of them."""

    state: str
    count: int
    mean_seconds: float | None
    longest_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Times of the last hour, in seconds: from commit to claim, and from SES's event to our store."""

    commit_to_call_median: float | None
    commit_to_call_longest: float | None
    event_lag_median: float | None
    event_lag_longest: float | None


def queue(tx: Tx) -> Queue:
    """Give what is under way, each state by its own partial index."""
    found = tx.one(
        Queue,
        """
        SELECT
            p.pending, p.pending_due, p.oldest_due_seconds,
            (SELECT count(*) FROM mail_service.email_outbox WHERE state = 'sending') AS sending,
            (SELECT count(*) FROM mail_service.email_outbox
             WHERE state = 'sending' AND lease_expires_at < mail_service.clock()) AS leases_expired,
            d.ambiguous, d.oldest_ambiguous_seconds
        FROM (
            SELECT count(*) AS pending,
                   count(*) FILTER (WHERE next_attempt_at <= mail_service.clock()) AS pending_due,
                   extract(epoch FROM mail_service.clock() - min(next_attempt_at)
                       FILTER (WHERE next_attempt_at <= mail_service.clock()))::double precision
                       AS oldest_due_seconds
            FROM mail_service.email_outbox WHERE state = 'pending'
        ) p, (
            SELECT count(*) AS ambiguous,
                   extract(epoch FROM mail_service.clock() - min(a.started_at))::double precision
                       AS oldest_ambiguous_seconds
            FROM mail_service.email_outbox o
            LEFT JOIN LATERAL (
                SELECT started_at FROM mail_service.send_attempts s
                WHERE s.email_id = o.id ORDER BY number DESC LIMIT 1) a ON true
            WHERE o.state = 'ambiguous'
        ) d
        """,
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found


def ended_badly(tx: Tx, state: str) -> list[Counted]:
    """Give how many emails are ``failed``, ``suppressed`` or ``cancelled``, by reason."""
    return tx.all(
        Counted,
        """
        SELECT COALESCE(reason, 'none') AS label, count(*) AS count
        FROM mail_service.email_outbox
        WHERE state = %s::mail_service.email_state
          AND state IN ('failed', 'suppressed', 'cancelled')
        GROUP BY 1 ORDER BY 1
        """,
        (state,),
    )


def active_suppressions(tx: Tx) -> list[Counted]:
    """Give how many mailboxes get no mail, by reason."""
    return tx.all(
        Counted,
        """
        SELECT reason::text AS label, count(*) AS count FROM mail_service.suppressions
        WHERE released_at IS NULL GROUP BY 1 ORDER BY 1
        """,
    )


def open_holds(tx: Tx) -> list[Counted]:
    """Give how many holds stop sending now, by scope."""
    return tx.all(
        Counted,
        """
        SELECT scope::text AS label, count(*) AS count FROM mail_service.holds
        WHERE cleared_at IS NULL GROUP BY 1 ORDER BY 1
        """,
    )


def retries(tx: Tx) -> int:
    """Give how many calls of the last hour were not an email's first."""
    return tx.value(
        int,
        """
        SELECT count(*) FROM (
            SELECT number FROM mail_service.send_attempts
            WHERE started_at > mail_service.clock() - interval '1 hour'
            ORDER BY started_at DESC LIMIT %s) newest
        WHERE number > 1
        """,
        (NEWEST,),
    )


def rejections(tx: Tx) -> list[Counted]:
    """Give how many webhook requests were refused in the last 24 hours, by cause."""
    return tx.all(
        Counted,
        """
        SELECT cause AS label, sum(count)::bigint AS count FROM mail_service.webhook_rejections
        WHERE hour > mail_service.clock() - interval '24 hours' GROUP BY 1 ORDER BY 1
        """,
    )


def calls(tx: Tx) -> list[Calls]:
    """Give the calls that began in the last hour, by what is known of them."""
    return tx.all(
        Calls,
        """
        SELECT state::text AS state, count(*) AS count,
               extract(epoch FROM avg(finished_at - started_at))::double precision AS mean_seconds,
               extract(epoch FROM max(finished_at - started_at))::double precision
                   AS longest_seconds
        FROM (SELECT state, started_at, finished_at FROM mail_service.send_attempts
              WHERE started_at > mail_service.clock() - interval '1 hour'
              ORDER BY started_at DESC LIMIT %s) newest
        GROUP BY 1 ORDER BY 1
        """,
        (NEWEST,),
    )


def delays(tx: Tx) -> Delay:
    """Give how long fresh mail waited for its first claim, and how late events came, in the last hour.

    Mail that is to go out later waits from then on.
    """
    found = tx.one(
        Delay,
        """
        SELECT c.middle AS commit_to_call_median, c.longest AS commit_to_call_longest,
               e.middle AS event_lag_median, e.longest AS event_lag_longest
        FROM (
            SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY s) AS middle, max(s) AS longest
            FROM (SELECT extract(epoch FROM a.started_at - GREATEST(o.created_at, o.due_at))
                             ::double precision AS s
                  FROM (SELECT email_id, number, started_at FROM mail_service.send_attempts
                        WHERE started_at > mail_service.clock() - interval '1 hour'
                        ORDER BY started_at DESC LIMIT %(timed)s) a
                  JOIN mail_service.email_outbox o ON o.id = a.email_id
                  WHERE a.number = 1) d
        ) c, (
            SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY s) AS middle, max(s) AS longest
            FROM (SELECT extract(epoch FROM received_at - occurred_at)::double precision AS s
                  FROM mail_service.ses_events
                  WHERE received_at > mail_service.clock() - interval '1 hour'
                  ORDER BY received_at DESC LIMIT %(timed)s) d
        ) e
        """,
        {"timed": TIMED},
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found


def broker_queue(tx: Tx) -> int | None:
    """Give how many hints wait in the broker's table; None where the table is not there."""
    if tx.maybe(str, "SELECT to_regclass('dramatiq.queue')::text") is None:
        return None
    return tx.value(
        int, "SELECT count(*) FROM dramatiq.queue WHERE state IN ('queued', 'consumed')"
    )
