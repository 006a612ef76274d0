"""Forgetting one mailbox: its address is taken out of every column that may hold it; its hash stays.

Free texts (reasons, notes) that quote the address lose it too: ``pattern`` finds it, in any capitals.
"""

from typing import LiteralString
from uuid import UUID

from mail_service.store.database import Tx

_SCRUBBED: LiteralString = """regexp_replace({text}, %(pattern)s, '(erased)', 'gi')"""


def remember(tx: Tx, address_hash: bytes, by: str) -> None:
    """Put the mailbox on the list of those that are kept without an address from now on."""
    tx.run(
        """
        INSERT INTO mail_service.erased_addresses (address_hash, erased_by) VALUES (%s, %s)
        ON CONFLICT (address_hash) DO UPDATE
        SET erased_by = EXCLUDED.erased_by, erased_at = mail_service.clock()
        """,
        (address_hash, by),
    )


def forget_accounts(tx: Tx, address_hash: bytes) -> int:
    """Take address and name out of the mailbox's account; it may sign up anew. Gives how many."""
    return tx.run(
        """
        UPDATE mail_service.accounts
        SET email = NULL, name = NULL, address_hash = sha256(id::text::bytea)
        WHERE address_hash = %s
        """,
        (address_hash,),
    )


def emails_to(tx: Tx, address_hash: bytes) -> list[UUID]:
    """Give the emails that still hold the address or the content of mail to it, oldest ids first."""
    return tx.values(
        UUID,
        """
        SELECT DISTINCT r.email_id FROM mail_service.email_recipients r
        WHERE r.address_hash = %s
          AND (r.address IS NOT NULL
               OR EXISTS (SELECT FROM mail_service.email_payloads p WHERE p.email_id = r.email_id))
        ORDER BY 1
        """,
        (address_hash,),
    )


def forget_email(tx: Tx, email_id: UUID, address_hash: bytes, pattern: str) -> None:
    """Take the address and the content out of a locked email, and out of what was written about it."""
    params = {"id": email_id, "hash": address_hash, "pattern": pattern}
    tx.run("DELETE FROM mail_service.email_payloads WHERE email_id = %(id)s", params)
    tx.run(
        """
        UPDATE mail_service.email_recipients SET address = NULL
        WHERE email_id = %(id)s AND address_hash = %(hash)s
        """,
        params,
    )
    tx.run(
        f"""
        UPDATE mail_service.email_decisions SET reason = {_SCRUBBED.format(text="reason")}
        WHERE email_id = %(id)s AND reason ~* %(pattern)s
        """,
        params,
    )
    tx.run(
        """
        UPDATE mail_service.ses_events e SET payload = NULL
        FROM mail_service.send_attempts a
        WHERE a.email_id = %(id)s AND e.attempt_id = a.id AND e.payload IS NOT NULL
        """,
        params,
    )


def forget_suppressions(tx: Tx, address_hash: bytes, pattern: str) -> int:
    """Take the address out of the mailbox's suppressions, which stand; gives how many there are.

    What was still to be put on SES's list can't be any more. What is still to be deleted there is once a
    sync sees it listed.
    """
    return tx.run(
        f"""
        UPDATE mail_service.suppressions
        SET address = NULL, ses_address = NULL, note = {_SCRUBBED.format(text="note")},
            release_reason = {_SCRUBBED.format(text="release_reason")},
            ses_state = CASE ses_state WHEN 'pending_put' THEN 'unknown' ELSE ses_state END
        WHERE address_hash = %(hash)s
        """,
        {"hash": address_hash, "pattern": pattern},
    )


def forget_payloads(tx: Tx, pattern: str, *, after: UUID, limit: int) -> tuple[UUID | None, int]:
    """Delete the texts of events without a call that name the address; gives where to go on, and how many.

    Their number is bounded by the shares of payload and by their days.
    """
    ids = tx.values(
        UUID,
        """
        SELECT id FROM mail_service.ses_events
        WHERE status <> 'matched' AND payload IS NOT NULL AND id > %s ORDER BY id LIMIT %s
        """,
        (after, limit),
    )
    changed = tx.run(
        "UPDATE mail_service.ses_events SET payload = NULL WHERE id = ANY(%s) AND payload ~* %s",
        (ids, pattern),
    )
    return (ids[-1] if ids else None), changed


def forget_answers(tx: Tx, pattern: str) -> int:
    """Delete stored answers to idempotency keys that name the address; they live for a day."""
    return tx.run(
        "DELETE FROM mail_service.idempotent_answers WHERE answer ~* %s", (f'"({pattern})"',)
    )
