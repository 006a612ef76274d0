"""Each look at SES's suppression list: one row, one at a time, and how far the two lists differ."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast
from uuid import UUID

from mail_service.store.database import Tx
from mail_service.store.ses_list import SOURCE, Effect

ALIVE_SECONDS = 300.0
"""How long a sync may take over one page, waits for a busy SES included, before it counts as lost."""

OVERLAP_SECONDS = 3600.0
"""How far a sync of the newest entries reaches back behind the one before it: clocks differ, and a
list is not changed in one moment everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """One look at SES's list. ``error`` says why it did not come to its end."""

    id: UUID
    scope: Literal["full", "recent"]
    since: datetime | None
    started_by: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None
    pages: int
    listed: int
    added: int
    strengthened: int
    released: int
    unreadable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far the two lists differ, as far as the syncs have seen; ages in seconds, None for never."""

    ours_only: int
    """Active here and not on SES's list when a full sync last looked."""
    ses_only: int
    """Released here and still on SES's list, to be deleted."""
    to_be_put: int
    """Suppressed by a person and not yet put on SES's list."""
    failing: int
    """Changes that SES did not take when last asked; they are tried again."""
    learned_last_day: int
    """Suppressions that only SES's list told us of, in the last 24 hours."""
    last_sync_seconds: float | None
    last_full_sync_seconds: float | None
    last_error: str | None
    """Why the newest sync, or the newest change, failed; None when it did not."""


_COLUMNS = """id, scope, since, started_by, started_at, finished_at, error, pages, listed, added,
              strengthened, released, unreadable"""


def close_lost(tx: Tx) -> int:
    """Close a sync whose process has died; gives how many there were."""
    return tx.run(
        """
        UPDATE mail_service.suppression_syncs
        SET finished_at = mail_service.clock(), error = 'its process ended before it did'
        WHERE finished_at IS NULL AND alive_until < mail_service.clock()
        """
    )


def begin(tx: Tx, *, sync_id: UUID, full: bool, by: str) -> Sync | None:
    """Begin a sync; None while another one is under way.

    Without ``full`` it asks for what SES changed since the last one that came to its end, unless none
    ever did.
    """
    return tx.one(
        Sync,
        f"""
        INSERT INTO mail_service.suppression_syncs (id, scope, since, started_by, alive_until)
        SELECT %(id)s, CASE WHEN last.since IS NULL THEN 'full' ELSE 'recent' END, last.since, %(by)s,
               mail_service.clock() + make_interval(secs => %(alive)s)
        FROM (SELECT CASE WHEN NOT %(full)s THEN max(started_at) - make_interval(secs => %(overlap)s)
                     END AS since
              FROM mail_service.suppression_syncs
              WHERE finished_at IS NOT NULL AND error IS NULL) last
        ON CONFLICT ((true)) WHERE finished_at IS NULL DO NOTHING
        RETURNING {_COLUMNS}
        """,
        {
            "id": sync_id,
            "by": by,
            "full": full,
            "alive": ALIVE_SECONDS,
            "overlap": OVERLAP_SECONDS,
        },
    )


def add_page(tx: Tx, sync_id: UUID, effect: Effect, *, listed: int, unreadable: int) -> Sync | None:
    """Count a page; None when the sync is no longer under way."""
    return tx.one(
        Sync,
        f"""
        UPDATE mail_service.suppression_syncs
        SET pages = pages + 1, listed = listed + %(listed)s, added = added + %(added)s,
            strengthened = strengthened + %(strengthened)s, released = released + %(released)s,
            unreadable = unreadable + %(unreadable)s,
            alive_until = mail_service.clock() + make_interval(secs => %(alive)s)
        WHERE id = %(id)s AND finished_at IS NULL
        RETURNING {_COLUMNS}
        """,
        {
            "id": sync_id,
            "listed": listed,
            "unreadable": unreadable,
            "added": effect.added,
            "strengthened": effect.strengthened,
            "released": effect.released,
            "alive": ALIVE_SECONDS,
        },
    )


def finish(tx: Tx, sync_id: UUID, error: str | None) -> Sync | None:
    """Close a sync; None when it was closed before."""
    return tx.one(
        Sync,
        f"""
        UPDATE mail_service.suppression_syncs
        SET finished_at = mail_service.clock(), error = %(error)s
        WHERE id = %(id)s AND finished_at IS NULL
        RETURNING {_COLUMNS}
        """,
        {"id": sync_id, "error": error},
    )


def mark_absent(tx: Tx, started_at: datetime) -> int:
    """Record what a full sync, begun then, did not see: stands here alone, or is deleted there.

    Of released ones only those without an address are settled so: the others ask SES themselves.
    """
    return tx.run(
        """
        UPDATE mail_service.suppressions
        SET ses_state = CASE WHEN released_at IS NULL THEN 'absent' ELSE 'deleted' END
                        ::mail_service.ses_list_state,
            ses_address = NULL, ses_checked_at = mail_service.clock()
        WHERE (ses_seen_at IS NULL OR ses_seen_at < %(at)s)
          AND ((released_at IS NULL AND created_at < %(at)s AND ses_state IN ('unknown', 'listed')
                AND (ses_checked_at IS NULL OR ses_checked_at < %(at)s))
            OR (released_at < %(at)s AND ses_state = 'pending_delete'
                AND COALESCE(ses_address, address) IS NULL))
        """,
        {"at": started_at},
    )


def due(tx: Tx, *, recent_seconds: float, full_seconds: float) -> Literal["full", "recent"] | None:
    """Say which sync is due by the age of the last ones that came to their end; None for neither.

    All of the list also where an event told of an entry that no sync has seen: it may have been there for
    long, and only the list tells its reason.
    """
    return cast(
        "Literal['full', 'recent'] | None",
        tx.maybe(
            str,
            """
            SELECT CASE WHEN COALESCE(bool_and(scope <> 'full' OR age >= %(full)s), true) THEN 'full'
                        WHEN NOT bool_and(age >= %(recent)s) THEN NULL
                        WHEN EXISTS (SELECT FROM mail_service.suppressions
                                     WHERE source = %(source)s AND ses_state = 'unknown'
                                       AND released_at IS NULL) THEN 'full'
                        ELSE 'recent' END
            FROM (SELECT scope, extract(epoch FROM mail_service.clock() - finished_at) AS age
                  FROM mail_service.suppression_syncs
                  WHERE finished_at IS NOT NULL AND error IS NULL) ended
            """,
            {"full": full_seconds, "recent": recent_seconds, "source": SOURCE},
        ),
    )


def drift(tx: Tx) -> Drift:
    """Give how far the two lists differ."""
    found = tx.one(
        Drift,
        """
        SELECT
            (SELECT count(*) FROM mail_service.suppressions
             WHERE ses_state = 'absent' AND released_at IS NULL) AS ours_only,
            (SELECT count(*) FROM mail_service.suppressions
             WHERE ses_state = 'pending_delete') AS ses_only,
            (SELECT count(*) FROM mail_service.suppressions
             WHERE ses_state = 'pending_put') AS to_be_put,
            (SELECT count(*) FROM mail_service.suppressions
             WHERE ses_state IN ('pending_put', 'pending_delete') AND ses_tries > 0) AS failing,
            (SELECT count(*) FROM mail_service.suppressions
             WHERE source = 'ses-list'
               AND created_at > mail_service.clock() - interval '24 hours') AS learned_last_day,
            (SELECT extract(epoch FROM mail_service.clock() - max(finished_at))
             FROM mail_service.suppression_syncs WHERE error IS NULL
            )::double precision AS last_sync_seconds,
            (SELECT extract(epoch FROM mail_service.clock() - max(finished_at))
             FROM mail_service.suppression_syncs WHERE error IS NULL AND scope = 'full'
            )::double precision AS last_full_sync_seconds,
            COALESCE(
                (SELECT error FROM mail_service.suppression_syncs WHERE finished_at IS NOT NULL
                 ORDER BY started_at DESC LIMIT 1),
                (SELECT ses_error FROM mail_service.suppressions
                 WHERE ses_state IN ('pending_put', 'pending_delete') AND ses_error IS NOT NULL
                 ORDER BY ses_next_at DESC LIMIT 1)) AS last_error
        """,
    )
    if found is None:
        raise LookupError("the statement gave no row")
    return found
