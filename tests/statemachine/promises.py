"""The promises of the design, each a query that must give no row.

``seen``, ``told``, ``answered`` and the other tables without a schema are the auditor's own: what
the outside knows, and what was true after the last step. Elsewhere: S2 is in S3 (what was answered is
there; the disk is not tried here), S13 in the step that brings forged requests, L2 in the sweep, S12,
S17 and the other promises of liveness in :mod:`recovery`, S17 of the log in :mod:`faults`. L5 holds by
construction: no broker is there.
"""

from typing import LiteralString

from tests.statemachine.promises_of_sending import s1, s3, s4, s5, s6, s7, s8, s9


def s10() -> LiteralString:
    """No claim includes a recipient suppressed before it, and no call begins on a look over 1 s old."""
    return """
    SELECT a.id || ' to ' || r.address FROM mail_service.send_attempts a
    JOIN mail_service.attempt_recipients c ON c.attempt_id = a.id
    JOIN mail_service.email_recipients r ON r.id = c.recipient_id
    JOIN mail_service.suppressions s ON s.address_hash = r.address_hash
    WHERE s.created_at < a.started_at AND (s.released_at IS NULL OR s.released_at > a.started_at)
    UNION ALL
    SELECT 'called late: ' || tag FROM seen WHERE NOT in_time
    """


def s11() -> LiteralString:
    """Suppressions stay, grow stronger, and are lifted only by a person."""
    return """
    SELECT b.id::text FROM old_suppressions b LEFT JOIN mail_service.suppressions s USING (id)
    WHERE s.id IS NULL OR s.reason < b.reason
       OR b.active AND s.released_at IS NOT NULL
          AND NOT EXISTS (SELECT FROM released WHERE released.id = b.id)
    UNION ALL
    SELECT t.sns_message_id || ' stopped nothing' FROM told t
    JOIN mail_service.ses_events e ON e.sns_message_id = t.sns_message_id AND e.status = 'matched'
    JOIN mail_service.attempt_recipients c ON c.attempt_id = e.attempt_id
    JOIN mail_service.email_recipients r ON r.id = c.recipient_id
     AND lower(r.address) = lower(t.address)
    WHERE t.honest AND t.stops
      AND NOT EXISTS (SELECT FROM mail_service.suppressions s WHERE s.address_hash = r.address_hash
                      AND (s.released_at IS NULL OR s.released_at >= t.at))
    UNION ALL
    SELECT 'covered by a release, and back: ' || s.id FROM mail_service.suppressions s
    WHERE s.released_at IS NULL AND s.source = 'event'
      AND EXISTS (SELECT FROM mail_service.suppressions p
                  WHERE p.address_hash = s.address_hash AND p.released_at IS NOT NULL)
      AND NOT EXISTS (
          SELECT FROM told t JOIN mail_service.email_recipients r ON lower(r.address) = lower(t.address)
          WHERE t.stops AND r.address_hash = s.address_hash
            AND t.at > ALL (SELECT p.released_at FROM mail_service.suppressions p
                            WHERE p.address_hash = s.address_hash AND p.released_at IS NOT NULL))
    """


def s14() -> LiteralString:
    """An event is attached to the call it is about, by tag or saved MessageId, or to none."""
    return """
    SELECT e.sns_message_id FROM mail_service.ses_events e
    JOIN mail_service.send_attempts a ON a.id = e.attempt_id
    LEFT JOIN told t ON t.sns_message_id = e.sns_message_id AND t.honest AND t.tag = a.request_tag
    WHERE t.tag IS NULL
    UNION ALL
    SELECT e.sns_message_id || ' is ' || e.status FROM mail_service.ses_events e
    JOIN told t ON t.sns_message_id = e.sns_message_id AND t.honest
    WHERE e.status = 'quarantined' OR t.by_tag AND e.status <> 'matched'
    UNION ALL
    SELECT sns_message_id FROM mail_service.ses_events GROUP BY sns_message_id HAVING count(*) > 1
    """


def s15() -> LiteralString:
    """Only drawn edges, each beginning where the last one ended, the last one where the email is."""
    return """
    SELECT t.email_id || ': ' || t.from_state || ' to ' || t.to_state
    FROM mail_service.email_transitions t WHERE t.from_state IS NOT NULL
      AND NOT EXISTS (SELECT FROM drawn d
                      WHERE d.from_state = t.from_state AND d.to_state = t.to_state)
    UNION ALL
    SELECT t.email_id || ' left ' || COALESCE(t.from_state::text, 'nothing')
    FROM (SELECT *, lag(to_state) OVER (PARTITION BY email_id ORDER BY id) AS was
          FROM mail_service.email_transitions) t WHERE t.from_state IS DISTINCT FROM t.was
    UNION ALL
    SELECT o.id || ' is ' || o.state FROM mail_service.email_outbox o
    WHERE o.state IS DISTINCT FROM (
        SELECT t.to_state FROM mail_service.email_transitions t
        WHERE t.email_id = o.id ORDER BY t.id DESC LIMIT 1)
    """


def s16() -> LiteralString:
    """Refusals and age are bounded; what a hold stops is called as a probe alone, one at a time."""
    return """
    SELECT a.email_id || ' epoch ' || a.epoch FROM mail_service.send_attempts a, rules
    WHERE a.state IN ('retryable', 'permanent') AND a.error_class <> 'throttled'
    GROUP BY a.email_id, a.epoch, rules.max_attempts HAVING count(*) > rules.max_attempts
    UNION ALL
    SELECT 'failed under a hold: ' || t.email_id FROM mail_service.email_transitions t
    JOIN mail_service.send_attempts a ON a.id = t.attempt_id
    WHERE t.to_state = 'failed' AND t.actor = 'worker' AND a.state = 'held'
    UNION ALL
    SELECT 'late: ' || a.id FROM mail_service.send_attempts a
    JOIN mail_service.email_outbox o ON o.id = a.email_id, rules
    WHERE a.started_at >= o.not_after
       OR a.epoch = o.epoch AND a.started_at >= o.due_at + make_interval(secs => rules.max_age)
    UNION ALL
    SELECT h.scope || ' stops ' || a.id FROM mail_service.holds h
    CROSS JOIN rules
    JOIN mail_service.send_attempts a
      ON a.started_at > h.opened_at AND (h.cleared_at IS NULL OR a.started_at < h.cleared_at)
    JOIN mail_service.email_outbox o ON o.id = a.email_id
    WHERE CASE h.scope WHEN 'account' THEN true WHEN 'endpoint' THEN true
               WHEN 'configuration_set' THEN h.subject = rules.configuration_set
               WHEN 'sender' THEN h.subject = o.sender_address
               ELSE h.subject = o.template_version END
      AND NOT EXISTS (SELECT FROM probes p WHERE p.attempt_id = a.id)
    UNION ALL
    SELECT 'a second probe of ' || h.scope FROM mail_service.holds h
    JOIN old_probes p ON p.hold_id = h.id WHERE h.probe_attempt_id <> p.attempt_id
    """


def s18() -> LiteralString:
    """Each decision has one row and one effect, and was about what was newest then."""
    return """
    SELECT COALESCE(d.email_id, t.email_id) || ' by ' || COALESCE(d.decided_by, t.actor)
    FROM (SELECT email_id, decided_by, count(*) AS times FROM mail_service.email_decisions
          GROUP BY 1, 2) d
    FULL JOIN (SELECT email_id, actor, count(*) AS times FROM mail_service.email_transitions
               WHERE from_state IS NOT NULL AND actor NOT IN ('worker', 'sweep', 'event')
               GROUP BY 1, 2) t ON t.email_id = d.email_id AND t.actor = d.decided_by
    WHERE t.times IS DISTINCT FROM d.times OR d.times > 1 AND d.decided_by <> 'policy'
    UNION ALL
    SELECT 'stale: ' || d.id FROM mail_service.email_decisions d
    JOIN mail_service.send_attempts about ON about.id = d.attempt_id
    JOIN mail_service.send_attempts newer
      ON newer.email_id = d.email_id AND newer.number > about.number
     AND newer.started_at < d.decided_at
    """


def s19() -> LiteralString:
    """Attempts are the provider's requests and those that never left, and say which they are."""
    return """
    SELECT a.id || ' is ' || a.state || ' and was called' FROM mail_service.send_attempts a
    JOIN seen s ON s.tag = a.request_tag WHERE a.state = 'released'
    UNION ALL
    SELECT a.id || ' is ' || a.state || ' and never left' FROM mail_service.send_attempts a
    WHERE NOT EXISTS (SELECT FROM seen s WHERE s.tag = a.request_tag)
      AND a.state NOT IN ('started', 'unknown', 'released')
      AND a.error_class NOT LIKE 'template%%'
    UNION ALL
    SELECT 'attempts of ' || o.id FROM mail_service.email_outbox o
    WHERE o.attempts <> (SELECT count(*) FROM mail_service.send_attempts a WHERE a.email_id = o.id)
    """


def s20() -> LiteralString:
    """No transaction is open during a call."""
    return "SELECT tag FROM seen WHERE open_work > 0"


_PROMISES = (s1, s3, s4, s5, s6, s7, s8, s9, s10, s11, s14, s15, s16, s18, s19, s20)

ALL: LiteralString = " UNION ALL ".join(
    "SELECT '"
    + promise.__name__.upper()
    + "' AS promise, shown_by FROM ("  # pyright: ignore
    + promise()
    + ") AS broken (shown_by)"
    for promise in _PROMISES
)
"""Every promise at once: its name and what shows that it is broken."""
