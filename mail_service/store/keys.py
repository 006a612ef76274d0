"""API keys: a public look-up part and the hash of a secret; the secret itself is never stored."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key as it is shown: nothing in it opens anything."""

    id: UUID
    name: str
    lookup: str
    scopes: list[str]
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a presented key is compared with."""

    id: UUID
    name: str
    secret_hash: bytes
    scopes: list[str]


def add(
    tx: Tx, *, key_id: UUID, name: str, lookup: str, secret_hash: bytes, scopes: list[str]
) -> None:
    """Write a key."""
    tx.run(
        """
        INSERT INTO mail_service.api_keys (id, name, lookup, secret_hash, scopes)
        VALUES (%s, %s, %s, %s, %s)
        """,
        (key_id, name, lookup, secret_hash, scopes),
    )


def credential(tx: Tx, lookup: str) -> Credential | None:
    """Give what a presented key must match, unless it is unknown or revoked."""
    return tx.one(
        Credential,
        """
        SELECT id, name, secret_hash, scopes FROM mail_service.api_keys
        WHERE lookup = %s AND revoked_at IS NULL
        """,
        (lookup,),
    )


def listed(tx: Tx) -> list[ApiKey]:
    """Give every key, newest first."""
    return tx.all(
        ApiKey,
        """
        SELECT id, name, lookup, scopes, created_at, revoked_at FROM mail_service.api_keys
        ORDER BY created_at DESC, id
        """,
    )


def revoke(tx: Tx, key_id: UUID) -> bool:
    """Take a key out of use; False when there is no such key in use."""
    return bool(
        tx.run(
            """
            UPDATE mail_service.api_keys SET revoked_at = mail_service.clock()
            WHERE id = %s AND revoked_at IS NULL
            """,
            (key_id,),
        )
    )
