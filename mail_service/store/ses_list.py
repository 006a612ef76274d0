"""What SES's own suppression list has, taken in here; :mod:`ses_changes` is the other way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from mail_service.domain.suppression import Listed
from mail_service.store import suppressions
from mail_service.store.database import Tx

SECONDS_BETWEEN_CALLS = 1.0
"""SES takes about one call a second on its list, from all of the account together."""

# A release covers what SES dates before it. An entry of our own making may be dated a little after
# the release of its suppression: the call was under way, or SES's clock is ahead.
_COVERED: LiteralString = """
    EXISTS (SELECT FROM mail_service.suppressions p
            WHERE p.address_hash = e.hash AND p.released_at IS NOT NULL
              AND p.released_at + CASE WHEN p.ses_put_at IS NULL THEN interval '0'
                                       ELSE interval '1 minute' END >= e.at)
"""

_ENTRIES: LiteralString = """
    unnest(%(hashes)s::bytea[], %(ids)s::uuid[], %(addresses)s::text[],
           %(reasons)s::mail_service.suppression_reason[], %(times)s::timestamptz[])
        AS e(hash, id, address, reason, at)
"""

# The spelling on SES's list, unless its owner asked to be forgotten.
_ADDRESS: LiteralString = """
    CASE WHEN EXISTS (SELECT FROM mail_service.erased_addresses f WHERE f.address_hash = e.hash)
         THEN NULL ELSE e.address END
"""

SOURCE = "ses-list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What some entries of SES's list changed here."""

    added: int
    strengthened: int
    released: int


@dataclass(frozen=True, slots=True)
class _Touched:
    id: UUID


def reserve_call(tx: Tx) -> float:
    """Reserve the account's next call on SES's list; gives the seconds until it may be made."""
    return tx.value(
        float,
        """
        INSERT INTO mail_service.heartbeats AS h (name, at)
        VALUES ('ses list call', mail_service.clock())
        ON CONFLICT (name) DO UPDATE
        SET at = GREATEST(h.at + make_interval(secs => %s), mail_service.clock())
        RETURNING extract(epoch FROM h.at - mail_service.clock())::double precision
        """,
        (SECONDS_BETWEEN_CALLS,),
    )


def take_in(tx: Tx, entries: Mapping[bytes, tuple[UUID, Listed]]) -> Effect:
    """Make ours of what SES lists: add, strengthen, or, where a release covers it, delete it there.

    One entry per mailbox (by hash). What SES says of an entry that we put there is nothing new.
    """
    hashes = sorted(entries)
    listed = [entries[one][1] for one in hashes]
    params = {
        "hashes": hashes,
        "ids": [entries[one][0] for one in hashes],
        "addresses": [entry.address for entry in listed],
        "reasons": [entry.reason.value for entry in listed],
        "times": [entry.dated(tx.now) for entry in listed],
        "source": SOURCE,
    }
    touched = tx.all(
        _Touched,
        f"""
        INSERT INTO mail_service.suppressions AS s
            (id, address_hash, address, reason, source, returns, ses_state)
        SELECT e.id, e.hash, {_ADDRESS}, e.reason, %(source)s,
               (SELECT count(*) FROM mail_service.suppressions p
                WHERE p.address_hash = e.hash AND p.released_at IS NOT NULL), 'listed'
        FROM {_ENTRIES} WHERE NOT {_COVERED}
        ORDER BY e.hash
        ON CONFLICT (address_hash) WHERE released_at IS NULL
        DO UPDATE SET reason = EXCLUDED.reason
        WHERE EXCLUDED.reason > s.reason
          AND NOT (s.ses_put_at IS NOT NULL AND EXCLUDED.reason = 'bounce')
        RETURNING s.id
        """,
        params,
    )
    mine = {entries[one][0]: entries[one][1].dated(tx.now) for one in hashes}
    added = {row.id: mine[row.id] for row in touched if row.id in mine}
    withdrawn = suppressions.withdraw(tx, added)
    tx.run(
        f"""
        UPDATE mail_service.suppressions s
        SET ses_state = 'listed', ses_address = NULLIF({_ADDRESS}, s.address), ses_tries = 0,
            ses_error = NULL, ses_seen_at = mail_service.clock(), ses_checked_at = mail_service.clock()
        FROM {_ENTRIES} WHERE s.address_hash = e.hash AND s.released_at IS NULL
        """,
        params,
    )
    released = tx.run(
        f"""
        UPDATE mail_service.suppressions s
        SET ses_state = 'pending_delete', ses_address = NULLIF(e.address, s.address),
            ses_seen_at = mail_service.clock(), ses_checked_at = mail_service.clock(),
            ses_next_at = CASE WHEN s.ses_state = 'pending_delete' THEN s.ses_next_at
                               ELSE mail_service.clock() END
        FROM {_ENTRIES}
        WHERE s.id = (SELECT r.id FROM mail_service.suppressions r
                      WHERE r.address_hash = e.hash AND r.released_at IS NOT NULL
                      ORDER BY r.released_at DESC LIMIT 1)
          AND {_COVERED}
          AND NOT EXISTS (SELECT FROM mail_service.suppressions a
                          WHERE a.address_hash = e.hash AND a.released_at IS NULL)
        """,
        params,
    )
    return Effect(
        added=len(added) - withdrawn, strengthened=len(touched) - len(added), released=released
    )


def is_covered(tx: Tx, address_hash: bytes, found: Listed) -> bool:
    """Say whether a release covers an entry of SES's list."""
    return tx.value(
        bool,
        f"SELECT {_COVERED} FROM (SELECT %s::bytea AS hash, %s::timestamptz AS at) e",
        (address_hash, found.dated(tx.now)),
    )
