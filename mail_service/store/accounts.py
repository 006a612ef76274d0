"""Accounts: whose registration an email may belong to."""

from collections.abc import Sequence
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


def by_ids(tx: Tx, account_ids: Sequence[UUID]) -> list[Account]:
    """Give those of the accounts that are there."""
    return tx.all(
        Account,
        "SELECT id, email, name, created_at FROM mail_service.accounts WHERE id = ANY(%s)",
        (list(account_ids),),
    )


def by_id(tx: Tx, account_id: UUID) -> Account | None:
    """Give an account, or None."""
    return next(iter(by_ids(tx, [account_id])), None)
