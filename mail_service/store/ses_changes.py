"""What SES's own suppression list is still to be told.

A suppression is pending while SES's list does not have what was decided here. Whoever carries a change
out takes it for some minutes, so that two never speak of one mailbox at once and a change whose process
died is taken again.
"""

from dataclasses import dataclass, field
from typing import LiteralString
from uuid import UUID

from mail_service.domain.suppression import SesListState, SuppressionReason
from mail_service.store.database import Tx

_TAKEN: LiteralString = "interval '5 minutes'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A suppression that SES's list is to be told of. ``ses_state`` says what is to be done."""

    id: UUID
    address_hash: bytes
    spelling: str = field(repr=False)
    reason: SuppressionReason
    ses_state: SesListState
    ses_tries: int
    stands_again: bool  # the mailbox was suppressed again since this one was released


def next_change(tx: Tx) -> Change | None:
    """Take the most pressing change for as long as its calls may need: deletes go before puts.

    Left out: mailboxes of which another change is under way, and those whose address was erased and
    which no sync has seen listed. What went wrong before is forgotten: ``ses_error`` is of the last try
    that ended, so one that is set says that nobody is at it (:func:`hurry`).
    """
    return tx.one(
        Change,
        f"""
        UPDATE mail_service.suppressions s
        SET ses_next_at = mail_service.clock() + {_TAKEN}, ses_error = NULL
        WHERE s.id = (
            SELECT c.id FROM mail_service.suppressions c
            WHERE c.ses_state IN ('pending_put', 'pending_delete')
              AND c.ses_next_at <= mail_service.clock()
              AND COALESCE(c.ses_address, c.address) IS NOT NULL
              AND NOT EXISTS (SELECT FROM mail_service.suppressions o
                              WHERE o.address_hash = c.address_hash AND o.id <> c.id
                                AND o.ses_state IN ('pending_put', 'pending_delete')
                                AND o.ses_next_at > mail_service.clock()
                                AND o.ses_next_at <= mail_service.clock() + {_TAKEN})
            ORDER BY c.ses_state = 'pending_put', c.ses_next_at, c.id
            LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING s.id, s.address_hash, COALESCE(s.ses_address, s.address) AS spelling, s.reason,
                  s.ses_state, s.ses_tries,
                  s.released_at IS NOT NULL AND EXISTS (
                      SELECT FROM mail_service.suppressions a
                      WHERE a.address_hash = s.address_hash AND a.released_at IS NULL) AS stands_again
        """,
    )


def begin_put(tx: Tx, suppression_id: UUID) -> bool:
    """Record that we are about to put the entry; False when it is no longer to be put."""
    return bool(
        tx.run(
            """
            UPDATE mail_service.suppressions SET ses_put_at = mail_service.clock()
            WHERE id = %s AND ses_state = 'pending_put'
            """,
            (suppression_id,),
        )
    )


def done(tx: Tx, change: Change, outcome: SesListState) -> None:
    """Record what SES's list has now; what was decided meanwhile is left to be carried out at once."""
    tx.run(
        """
        UPDATE mail_service.suppressions
        SET ses_state = CASE WHEN ses_state = %(was)s THEN %(outcome)s ELSE ses_state END,
            ses_address = CASE WHEN %(outcome)s IN ('deleted', 'kept') THEN NULL ELSE ses_address END,
            ses_tries = 0, ses_error = NULL, ses_checked_at = mail_service.clock(),
            ses_next_at = mail_service.clock()
        WHERE id = %(id)s
        """,
        {"id": change.id, "was": change.ses_state, "outcome": outcome},
    )


def failed(tx: Tx, change: Change, *, error: str, again_in_seconds: float) -> None:
    """Record why SES's list could not be told; it is tried again."""
    tx.run(
        """
        UPDATE mail_service.suppressions
        SET ses_tries = ses_tries + 1, ses_error = %(error)s,
            ses_next_at = mail_service.clock()
                + CASE WHEN ses_state = %(was)s THEN make_interval(secs => %(seconds)s)
                       ELSE interval '0' END
        WHERE id = %(id)s AND ses_state IN ('pending_put', 'pending_delete')
        """,
        {
            "id": change.id,
            "was": change.ses_state,
            "error": error,
            "seconds": again_in_seconds,
        },
    )


def hurry(tx: Tx) -> int:
    """Let changes that failed be tried again at once; gives how many. Those under way are left alone."""
    return tx.run(
        """
        UPDATE mail_service.suppressions SET ses_next_at = mail_service.clock()
        WHERE ses_state IN ('pending_put', 'pending_delete') AND ses_error IS NOT NULL
          AND ses_next_at > mail_service.clock()
        """
    )


def give_back(tx: Tx, change: Change) -> None:
    """Let a change that was taken be taken again at once."""
    tx.run(
        "UPDATE mail_service.suppressions SET ses_next_at = mail_service.clock() WHERE id = %s",
        (change.id,),
    )


def pending(tx: Tx) -> int:
    """Give how many changes SES's list is still to be told of."""
    return tx.value(
        int,
        """
        SELECT count(*) FROM mail_service.suppressions
        WHERE ses_state IN ('pending_put', 'pending_delete')
        """,
    )
