"""Suppressions: one active row per mailbox. Events only add or strengthen; only a person releases."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from mail_service.domain.suppression import ReleaseRule, SesListState, SuppressionReason
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One row, active while ``released_at`` is None."""

    id: UUID
    address: str | None
    reason: SuppressionReason
    source: str
    note: str | None
    returns: int
    created_at: datetime
    released_at: datetime | None
    released_by: str | None
    release_rule: str | None
    release_reason: str | None
    ses_state: SesListState
    ses_checked_at: datetime | None
    ses_error: str | None


_COLUMNS = """id, address, reason, source, note, returns, created_at, released_at, released_by,
              release_rule, release_reason, ses_state, ses_checked_at, ses_error"""


# Up to when a release covers evidence. What SES's own list stops until the entry is deleted there says
# nothing new: the release has only not reached SES.
_COVERS_UNTIL: LiteralString = """
    GREATEST(p.released_at, CASE WHEN %(by_their_list)s THEN
        CASE p.ses_state WHEN 'pending_delete' THEN 'infinity'::timestamptz
                         WHEN 'deleted' THEN p.ses_checked_at END END)
"""


def suppress(
    tx: Tx,
    *,
    new_id: UUID,
    address_hash: bytes,
    address: str | None,
    reason: SuppressionReason,
    source: str,
    note: str | None = None,
    evidence_at: datetime | None = None,
    put_at_ses: bool = False,
    by_their_list: bool = False,
) -> UUID | None:
    """Add a suppression or strengthen the standing one; gives its id.

    None when a release covers the evidence: a person lifted the suppression after it was dated. Of what
    merely says that SES's own list stopped a mail (``by_their_list``) a release covers all until its entry
    there is deleted. ``evidence_at`` None means now. A new one is put on SES's list as well if asked. Of a
    mailbox whose owner asked to be forgotten it is stored without the address, and can't be put there.
    """
    standing = tx.maybe(
        UUID,
        f"""
        INSERT INTO mail_service.suppressions AS s
            (id, address_hash, address, reason, source, note, returns, ses_state)
        SELECT %(id)s, %(hash)s, CASE WHEN NOT forgotten.it THEN %(address)s END, %(reason)s,
               %(source)s, %(note)s,
               (SELECT count(*) FROM mail_service.suppressions p
                WHERE p.address_hash = %(hash)s AND p.released_at IS NOT NULL),
               CASE WHEN forgotten.it THEN 'unknown' ELSE %(ses_state)s END
        FROM (SELECT EXISTS (SELECT FROM mail_service.erased_addresses
                             WHERE address_hash = %(hash)s) AS it) forgotten
        WHERE NOT EXISTS (
            SELECT FROM mail_service.suppressions p
            WHERE p.address_hash = %(hash)s
              AND {_COVERS_UNTIL} >= COALESCE(%(evidence_at)s, 'infinity'::timestamptz))
        ON CONFLICT (address_hash) WHERE released_at IS NULL
        DO UPDATE SET reason = GREATEST(s.reason, EXCLUDED.reason)
        RETURNING s.id
        """,
        {
            "id": new_id,
            "hash": address_hash,
            "address": address,
            "reason": reason,
            "source": source,
            "note": note,
            "evidence_at": evidence_at,
            "by_their_list": by_their_list,
            "ses_state": SesListState.PENDING_PUT if put_at_ses else SesListState.UNKNOWN,
        },
    )
    if standing == new_id and evidence_at is not None:
        covered = withdraw(tx, {new_id: evidence_at}, by_their_list=by_their_list)
        return None if covered else standing
    return standing


def withdraw(tx: Tx, added: Mapping[UUID, datetime], *, by_their_list: bool = False) -> int:
    """Take back what this transaction added although a release covers its evidence; gives how many.

    Adding waits at the unique index for a release under way, and then goes on with what it saw before
    that release. Once it has added, every earlier release is committed, and this statement sees it.
    """
    return tx.run(
        f"""
        DELETE FROM mail_service.suppressions s
        USING unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS e(id, at)
        WHERE s.id = e.id AND EXISTS (
            SELECT FROM mail_service.suppressions p
            WHERE p.address_hash = s.address_hash AND {_COVERS_UNTIL} >= e.at)
        """,
        {"ids": list(added), "times": list(added.values()), "by_their_list": by_their_list},
    )


def by_id(tx: Tx, suppression_id: UUID, *, for_update: bool = False) -> Suppression | None:
    """Give one row, locked if asked."""
    if for_update:
        return tx.one(
            Suppression,
            f"SELECT {_COLUMNS} FROM mail_service.suppressions WHERE id = %s FOR UPDATE",
            (suppression_id,),
        )
    return tx.one(
        Suppression,
        f"SELECT {_COLUMNS} FROM mail_service.suppressions WHERE id = %s",
        (suppression_id,),
    )


def release(
    tx: Tx, suppression_id: UUID, *, rule: ReleaseRule, reason: str, by: str
) -> Suppression | None:
    """Lift an active suppression, to be deleted at SES too; None when it was lifted before.

    A put that is under way ends first (``ses_changes.next_change``).
    """
    return tx.one(
        Suppression,
        f"""
        UPDATE mail_service.suppressions
        SET released_at = mail_service.clock(), released_by = %(by)s, release_rule = %(rule)s,
            release_reason = %(reason)s, ses_state = 'pending_delete', ses_tries = 0, ses_error = NULL,
            ses_next_at = LEAST(GREATEST(ses_next_at, mail_service.clock()),
                                mail_service.clock() + interval '5 minutes')
        WHERE id = %(id)s AND released_at IS NULL
        RETURNING {_COLUMNS}
        """,
        {"id": suppression_id, "rule": rule, "reason": reason, "by": by},
    )


def page(
    tx: Tx,
    *,
    address_hash: bytes | None,
    reason: SuppressionReason | None,
    active: bool | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Suppression]:
    """Give rows newest first, starting after a place in that order."""
    at, last = after if after is not None else (None, None)
    return tx.all(
        Suppression,
        f"""
        SELECT {_COLUMNS} FROM mail_service.suppressions
        WHERE (%(hash)s::bytea IS NULL OR address_hash = %(hash)s)
          AND (%(reason)s::mail_service.suppression_reason IS NULL OR reason = %(reason)s)
          AND (%(active)s::boolean IS NULL OR (released_at IS NULL) = %(active)s)
          AND (%(at)s::timestamptz IS NULL OR (created_at, id) < (%(at)s, %(last)s::uuid))
        ORDER BY created_at DESC, id DESC LIMIT %(limit)s
        """,
        {
            "hash": address_hash,
            "reason": reason,
            "active": active,
            "at": at,
            "last": last,
            "limit": limit,
        },
    )
