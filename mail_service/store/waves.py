"""Which due emails a wave takes: lane by lane, within the shared rate, around whatever a hold stops.

Rows are locked in order, oldest first, from the due time that the caller gives for each lane: rows that
are dead, but can't be cleaned up while somebody looks at an old snapshot, would else be passed by each
wave, and so would those that a hold stops.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from mail_service.store.database import Tx
from mail_service.store.rate import FACTOR_NOW

# What the wave may take of each lane. Every wave leaves `reserved` places to each lower lane that has
# work, and what a lane does not use falls to the next.
_RATE_AND_HOLDS: LiteralString = f"""
    WITH rate AS MATERIALIZED (
        SELECT LEAST(
            GREATEST(1, per_second * pace.factor),
            tokens + extract(epoch FROM mail_service.clock() - filled_at)
                     * per_second * pace.factor,
            COALESCE(day_left, 'infinity')) AS tokens
        FROM mail_service.send_rate, LATERAL (SELECT {FACTOR_NOW} AS factor) pace
        LIMIT 1 FOR UPDATE OF send_rate
    ), held AS MATERIALIZED (
        SELECT scope, subject FROM mail_service.holds WHERE cleared_at IS NULL
    ), open_lanes AS MATERIALIZED (
        SELECT CASE WHEN EXISTS (
                   SELECT FROM held WHERE scope IN ('account', 'endpoint')
                      OR (scope = 'configuration_set' AND subject = %(configuration_set)s))
               THEN 0 ELSE LEAST(%(limit)s, GREATEST(0, floor(rate.tokens)))::integer END AS places,
               ARRAY(SELECT subject FROM held WHERE scope = 'sender') AS senders,
               ARRAY(SELECT subject FROM held WHERE scope = 'template') AS templates
        FROM rate
"""


def _lane(
    name: LiteralString, lane: LiteralString, places: LiteralString, but: LiteralString = "nothing"
) -> LiteralString:
    """Give the CTE that locks up to ``places`` due rows of a lane, oldest first, leaving some out.

    Materialized, because without that fence the planner may lock more rows than the limit.
    """
    return f"""
    ), {name} AS MATERIALIZED (
        SELECT o.id, o.lane, o.next_attempt_at, o.epoch, o.attempts, o.recipient_count, o.not_after,
               o.due_at
        FROM mail_service.email_outbox o, open_lanes l
        WHERE o.state = 'pending' AND o.lane = {lane} AND o.next_attempt_at <= mail_service.clock()
          AND o.next_attempt_at >= COALESCE((%(since)s::timestamptz[])[{lane} + 1], '-infinity')
          AND o.sender_address <> ALL (l.senders) AND o.template_version <> ALL (l.templates)
          AND o.id <> ALL (ARRAY(SELECT id FROM {but}))
        ORDER BY o.next_attempt_at
        LIMIT (SELECT {places} FROM open_lanes)
        FOR UPDATE OF o SKIP LOCKED
    """


def _less(*taken: LiteralString) -> LiteralString:
    return "places" + "".join(f" - (SELECT count(*) FROM {name})" for name in taken)


# The literal limit tells the planner how few rows there are: it can't see through the others, and takes
# a tenth of the table for a wave.
DUE_IN_A_WAVE: LiteralString = (
    _RATE_AND_HOLDS
    + """
    ), nothing AS (
        SELECT NULL::uuid AS id WHERE false
    """
    + _lane("reserved_low", "2", "LEAST(%(reserved)s, places)")
    + _lane("reserved_middle", "1", f"LEAST(%(reserved)s, {_less('reserved_low')})")
    + _lane("high", "0", _less("reserved_low", "reserved_middle"))
    + _lane("middle", "1", _less("reserved_low", "reserved_middle", "high"), "reserved_middle")
    + _lane("low", "2", _less("reserved_low", "reserved_middle", "high", "middle"), "reserved_low")
    + """
    ), due AS MATERIALIZED (
        -- An email of many recipients may run the bucket into debt, or it would never go.
        SELECT counted.* FROM (
            SELECT taken.*, sum(taken.recipient_count)
                                OVER (ORDER BY taken.lane, taken.next_attempt_at, taken.id)
                            - taken.recipient_count AS before
            FROM (TABLE reserved_low UNION ALL TABLE reserved_middle UNION ALL TABLE high
                  UNION ALL TABLE middle UNION ALL TABLE low LIMIT 1000) taken
        ) counted, rate
        WHERE counted.before <= rate.tokens - 1
    """
)


def seconds_until_due(tx: Tx, since: Sequence[datetime | None]) -> float | None:
    """Give the time until the next pending email is due, in seconds; None when none is pending.

    Those due before ``since``, which is given lane by lane, are passed over. Each lane's first is found
    in the index: the smallest of all would be looked for among all that are pending.
    """
    return tx.maybe(
        float,
        """
        SELECT extract(epoch FROM min(first.next_attempt_at)
                                  - mail_service.clock())::double precision
        FROM unnest(%s::timestamptz[]) WITH ORDINALITY AS lane (since, number),
             LATERAL (SELECT o.next_attempt_at FROM mail_service.email_outbox o
                      WHERE o.state = 'pending' AND o.lane = lane.number - 1
                        AND o.next_attempt_at >= COALESCE(lane.since, '-infinity')
                      ORDER BY o.next_attempt_at LIMIT 1) first
        """,
        (list(since),),
    )
