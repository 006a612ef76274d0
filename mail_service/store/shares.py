"""How much of the payloads of events that found no call is kept: so much an hour, by pool."""

from dataclasses import dataclass

from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Whether a payload fits its pool's share of the hour, and how many did not so far."""

    fits: bool
    dropped: int


def take_share(tx: Tx, pool: str, *, size: int, hourly: int) -> Share:
    """Charge a payload to its pool's share of this hour; what does not fit is counted as dropped."""
    found = tx.one(
        Share,
        """
        INSERT INTO mail_service.payload_allowances AS p (hour, pool, bytes, dropped)
        VALUES (date_trunc('hour', mail_service.clock()), %(pool)s, %(size)s,
                (%(size)s > %(hourly)s)::int)
        ON CONFLICT (hour, pool) DO UPDATE
        SET bytes = p.bytes + %(size)s,
            dropped = p.dropped + (p.bytes + %(size)s > %(hourly)s)::int
        RETURNING p.bytes <= %(hourly)s AS fits, p.dropped
        """,
        {"pool": pool, "size": size, "hourly": hourly},
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found
