"""The one send rate of all workers, and the run of unknown outcomes. Taken and spent by the claim."""

from typing import LiteralString

from mail_service.store.database import Tx

FACTOR_NOW: LiteralString = """
    LEAST(1, factor * power(2, LEAST(60, floor(COALESCE(
        extract(epoch FROM mail_service.clock() - throttled_at), 300) / 5))))
"""
"""What throttling has left of the rate: it doubles back every 5 s."""


def set_rate(tx: Tx, *, per_second: float, day_left: float | None, quota_read: bool) -> None:
    """Set the rate, from the setting or from the quota just read."""
    tx.run(
        """
        UPDATE mail_service.send_rate
        SET per_second = %(rate)s, day_left = %(day_left)s,
            quota_read_at = CASE WHEN %(read)s THEN mail_service.clock() ELSE quota_read_at END
        WHERE per_second <> %(rate)s OR day_left IS DISTINCT FROM %(day_left)s OR %(read)s
        """,
        {"rate": per_second, "day_left": day_left, "read": quota_read},
    )


def throttled(tx: Tx) -> None:
    """Halve the rate, at most once a second and not below an eighth; it doubles back every 5 s."""
    tx.run(
        f"""
        UPDATE mail_service.send_rate
        SET factor = GREATEST(0.125, 0.5 * {FACTOR_NOW}),
            throttled_at = mail_service.clock()
        WHERE throttled_at IS NULL OR throttled_at <= mail_service.clock() - interval '1 second'
        """
    )


def count_unknowns(tx: Tx, *, accepted: bool, unknowns: int) -> int:
    """Count unknown outcomes since the last acceptance; gives how many in a row there are now."""
    return tx.value(
        int,
        """
        UPDATE mail_service.send_rate
        SET unknowns_in_a_row = CASE WHEN %(accepted)s THEN 0 ELSE unknowns_in_a_row END
                                + %(unknowns)s
        RETURNING unknowns_in_a_row
        """,
        {"accepted": accepted, "unknowns": unknowns},
    )
