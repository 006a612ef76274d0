"""Accounts: whose registration an email may belong to."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One registration. ``email`` and ``name`` are None after erasure."""

    id: UUID
    email: str | None
    name: str | None
    created_at: datetime


def add(
    tx: Tx, *, account_id: UUID, email: str, address_hash: bytes, name: str | None
) -> Account | None:
    """Write an account; None when the mailbox has one already."""
    return tx.one(
        Account,
        """
        INSERT INTO mail_service.accounts (id, email, address_hash, name)
        VALUES (%s, %s, %s, %s)
        ON CONFLICT (address_hash) DO NOTHING
        RETURNING id, email, name, created_at
        """,
        (account_id, email, address_hash, name),
    )


def by_id(tx: Tx, account_id: UUID) -> Account | None:
    """Give an account, or None."""
    return tx.one(
        Account,
        "SELECT id, email, name, created_at FROM mail_service.accounts WHERE id = %s",
        (account_id,),
    )
