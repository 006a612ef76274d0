"""S1 to S9, the promises about intake and sending, each a query that must give no row.

See :mod:`promises` for the tables without a schema.
"""

from typing import LiteralString


def s1() -> LiteralString:
    """Every account has exactly one email of its kind, and the reverse."""
    return """
    SELECT a.id::text FROM mail_service.accounts a
    LEFT JOIN mail_service.email_outbox o
      ON o.account_id = a.id AND o.dedup_key = 'welcome:' || a.id || ':v1'
    GROUP BY a.id HAVING count(o.id) <> 1
    UNION ALL
    SELECT o.dedup_key FROM mail_service.email_outbox o
    WHERE o.dedup_key LIKE 'welcome:%%'
      AND NOT EXISTS (SELECT FROM mail_service.accounts a WHERE a.id = o.account_id)
    UNION ALL
    SELECT o.id::text FROM mail_service.email_outbox o
    WHERE o.recipient_count <> (SELECT count(*) FROM mail_service.email_recipients r
                                WHERE r.email_id = o.id)
    """


def s3() -> LiteralString:
    """What was answered 2xx is there; one key, one email, never two payloads."""
    return """
    SELECT w.key FROM answered w LEFT JOIN mail_service.email_outbox o ON o.id = w.email_id
    WHERE o.id IS NULL
    UNION ALL
    SELECT key FROM answered GROUP BY key
    HAVING count(DISTINCT payload) > 1 OR count(DISTINCT email_id) > 1
    """


def s4() -> LiteralString:
    """Each request's attempt was committed before it, and no tag came twice."""
    return """
    SELECT s.tag FROM seen s LEFT JOIN mail_service.send_attempts a ON a.request_tag = s.tag
    WHERE a.id IS NULL OR NOT s.known
    UNION ALL
    SELECT tag FROM seen GROUP BY tag HAVING count(*) > 1
    """


def s5() -> LiteralString:
    """At most one acceptance per email and epoch; a further attempt follows only proofs of refusal."""
    return """
    SELECT a.email_id::text || ' epoch ' || a.epoch
    FROM mail_service.send_attempts a
    JOIN seen s ON s.tag = a.request_tag AND s.accepted AND NOT s.contradicted
    GROUP BY a.email_id, a.epoch HAVING count(*) > 1
    UNION ALL
    SELECT 'attempt after ' || b.state || ': ' || a.id
    FROM mail_service.send_attempts a
    JOIN mail_service.send_attempts b
      ON b.email_id = a.email_id AND b.epoch = a.epoch AND b.number < a.number
    WHERE b.state NOT IN ('retryable', 'held', 'released')
      AND NOT EXISTS (SELECT FROM seen s WHERE s.tag = b.request_tag AND s.contradicted)
    UNION ALL
    SELECT 'epochs of ' || o.id FROM mail_service.email_outbox o
    WHERE o.epoch <> (SELECT count(*) FROM mail_service.email_decisions d
                      WHERE d.email_id = o.id AND d.epoch_after = d.epoch_before + 1)
    UNION ALL
    SELECT d.decision || ' while the call may run: ' || d.id
    FROM mail_service.email_decisions d, rules, mail_service.send_attempts a
    WHERE a.email_id = d.email_id AND d.epoch_after > d.epoch_before
      AND a.started_at < d.decided_at
      AND (a.id = d.attempt_id OR a.finished_at IS NULL OR a.finished_at > d.decided_at)
      AND d.decided_at < a.started_at + make_interval(secs => rules.lease + rules.call)
    UNION ALL
    SELECT 'policy: ' || o.id FROM mail_service.email_outbox o, rules
    WHERE (SELECT count(*) FROM mail_service.email_decisions d
           WHERE d.email_id = o.id AND d.decided_by = 'policy')
          > CASE o.on_ambiguous WHEN 'resend' THEN rules.max_policy_resends ELSE 0 END
    """


def s6() -> LiteralString:
    """Nothing recorded as not accepted was accepted."""
    return """
    SELECT a.id::text || ' is ' || a.state
    FROM mail_service.send_attempts a
    JOIN seen s ON s.tag = a.request_tag AND s.accepted AND NOT s.contradicted
    WHERE a.state IN ('retryable', 'permanent', 'held', 'released')
    """


def s7() -> LiteralString:
    """What is submitted was accepted, or an operator said so; a saved MessageId is the call's own."""
    return """
    SELECT 'submitted: ' || o.id FROM mail_service.email_outbox o
    WHERE o.state = 'submitted'
      AND NOT EXISTS (SELECT FROM mail_service.send_attempts a
                      JOIN seen s ON s.tag = a.request_tag AND s.accepted
                      WHERE a.email_id = o.id AND a.state = 'accepted')
      AND NOT EXISTS (SELECT FROM mail_service.email_decisions d
                      WHERE d.email_id = o.id AND d.decision = 'accepted')
    UNION ALL
    SELECT 'accepted: ' || a.id FROM mail_service.send_attempts a
    WHERE a.state = 'accepted'
      AND NOT EXISTS (SELECT FROM seen s WHERE s.tag = a.request_tag AND s.accepted
                      AND s.message_id = COALESCE(a.provider_message_id, s.message_id))
    UNION ALL
    SELECT 'MessageId changed: ' || a.id
    FROM old_attempts b JOIN mail_service.send_attempts a USING (id)
    WHERE b.message_id IS DISTINCT FROM a.provider_message_id AND b.message_id IS NOT NULL
    UNION ALL
    SELECT 'left where it was accepted: ' || o.id FROM mail_service.email_outbox o
    WHERE o.state IN ('pending', 'failed', 'ambiguous', 'cancelled', 'suppressed')
      AND EXISTS (SELECT FROM mail_service.send_attempts a
                  WHERE a.email_id = o.id AND a.state = 'accepted')
    """


def s8() -> LiteralString:
    """Only the current token, or the sweep after its end, moves what is sending; certainty grows."""
    return """
    SELECT t.email_id || ': ' || t.actor || ' moved it to ' || t.to_state
    FROM (SELECT *, lag(attempt_id) OVER w AS token, lag(at) OVER w AS begun
          FROM mail_service.email_transitions WINDOW w AS (PARTITION BY email_id ORDER BY id)) t,
         rules
    WHERE t.from_state = 'sending'
      AND (t.token IS DISTINCT FROM t.attempt_id OR t.actor NOT IN ('worker', 'sweep')
           OR t.actor = 'sweep' AND t.at < t.begun + make_interval(secs => rules.lease))
    UNION ALL
    SELECT 'lease of ' || o.id FROM mail_service.email_outbox o
    WHERE o.lease_token IS NOT NULL
      AND o.lease_token IS DISTINCT FROM (
          SELECT a.id FROM mail_service.send_attempts a
          WHERE a.email_id = o.id ORDER BY a.number DESC LIMIT 1)
    UNION ALL
    SELECT a.id || ': ' || b.state || ' became ' || a.state
    FROM old_attempts b LEFT JOIN mail_service.send_attempts a USING (id)
    WHERE a.state IS NULL OR a.state <> b.state
      AND NOT (b.state = 'started' OR a.state = 'accepted'
               OR b.state = 'unknown' AND a.state <> 'started')
    """


def s9() -> LiteralString:
    """Neither expiry nor an event makes an email sendable; a worker does with a proof of refusal."""
    return """
    SELECT t.email_id || ' by ' || t.actor FROM mail_service.email_transitions t
    LEFT JOIN mail_service.send_attempts a ON a.id = t.attempt_id
    WHERE t.to_state = 'pending' AND t.from_state IS NOT NULL
      AND (t.actor IN ('sweep', 'event')
           OR t.actor = 'worker' AND a.state NOT IN ('retryable', 'held', 'released', 'accepted'))
    """
