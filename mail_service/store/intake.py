"""What intake writes: an account and its email, or any number of emails, each by one statement.

Whole or not at all: an email's row, its content, its recipients and its first line in the journal are
parts of one statement, and so is the account of a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from mail_service.domain.states import OnAmbiguous
from mail_service.store.database import Tx

Kind = Literal["to", "cc", "bcc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount:
    """An account to be written."""

    id: UUID
    email: str = field(repr=False)
    address_hash: bytes
    name: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecipient:
    """One recipient of an email to be written."""

    id: UUID
    kind: Kind
    address: str = field(repr=False)
    address_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEmail:
    """An email to be written, with everything it needs to be sent."""

    id: UUID
    account_id: UUID | None
    dedup_key: str
    intent_hash: bytes
    template: str
    template_checksum: str
    sender: str
    on_ambiguous: OnAmbiguous
    priority: int
    send_at: datetime | None
    not_after: datetime | None
    data: dict[str, Any] = field(repr=False)
    reply_to: tuple[str, ...] = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    recipients: tuple[NewRecipient, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An email that was written, and when."""

    id: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The email that already holds a dedup key."""

    dedup_key: str
    id: UUID
    intent_hash: bytes


# Whoever meets another transaction at a key waits for it. Taken in one order by everybody, keys make
# no circle of those who wait.
_EMAILS: LiteralString = """
    asked AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(%(emails)s) AS e (
            id uuid, account_id uuid, dedup_key text, intent_hash bytea, template text,
            template_checksum text, sender text, on_ambiguous mail_service.ambiguity_policy,
            priority smallint, send_at timestamptz, not_after timestamptz, data jsonb,
            reply_to text[], headers jsonb, recipients jsonb)
    ), added AS (
        INSERT INTO mail_service.email_outbox
            (id, account_id, dedup_key, intent_hash, template, template_checksum, sender,
             on_ambiguous, priority, recipient_count, not_after, due_at, next_attempt_at)
        SELECT id, account_id, dedup_key, intent_hash, template, template_checksum, sender,
               on_ambiguous, priority, jsonb_array_length(recipients), not_after,
               COALESCE(send_at, mail_service.clock()), COALESCE(send_at, mail_service.clock())
        FROM asked {given} ORDER BY dedup_key COLLATE "C"
        {taken}
        RETURNING id, created_at
    ), content AS (
        INSERT INTO mail_service.email_payloads (email_id, data, reply_to, headers)
        SELECT id, data, reply_to, headers FROM asked JOIN added USING (id)
    ), addressed AS (
        INSERT INTO mail_service.email_recipients
            (id, email_id, position, kind, address, address_hash)
        SELECT r.id, added.id, r.position, r.kind, r.address, r.address_hash
        FROM asked JOIN added USING (id), ROWS FROM (jsonb_to_recordset(asked.recipients) AS (
            id uuid, kind mail_service.recipient_kind, address text, address_hash bytea
        )) WITH ORDINALITY AS r (id, kind, address, address_hash, position)
    ), journal AS (
        INSERT INTO mail_service.email_transitions (email_id, from_state, to_state, actor)
        SELECT id, NULL, 'pending', %(actor)s FROM added
    )
"""
_ADD: LiteralString = (
    "WITH "
    + _EMAILS.format(given="", taken="ON CONFLICT (dedup_key) DO NOTHING")
    + "SELECT id, created_at FROM added"
)
# The key of a welcome is as new as its account: one that is taken is refused, and the account with it.
_OPEN: LiteralString = (
    """
    WITH account AS (
        INSERT INTO mail_service.accounts (id, email, address_hash, name)
        VALUES (%(id)s, %(email)s, %(address_hash)s, %(name)s)
        ON CONFLICT (address_hash) DO NOTHING
        RETURNING created_at
    ),
    """
    + _EMAILS.format(given="WHERE EXISTS (SELECT FROM account)", taken="")
    + "SELECT created_at FROM account"
)


def open_account(tx: Tx, account: NewAccount, email: NewEmail, actor: str) -> datetime | None:
    """Write an account and its email; gives their time, None when the mailbox has an account already."""
    return tx.maybe(
        datetime,
        _OPEN,
        {
            "id": account.id,
            "email": account.email,
            "address_hash": account.address_hash,
            "name": account.name,
            "emails": _rows([email]),
            "actor": actor,
        },
    )


def add(tx: Tx, emails: Sequence[NewEmail], actor: str) -> list[Written]:
    """Write those of the emails whose keys are free, in any number; gives them. No key may come twice."""
    return tx.all(Written, _ADD, {"emails": _rows(emails), "actor": actor})


def standing(tx: Tx, dedup_keys: Sequence[str]) -> list[Standing]:
    """Give the emails that hold these dedup keys."""
    return tx.all(
        Standing,
        """
        SELECT dedup_key, id, intent_hash FROM mail_service.email_outbox WHERE dedup_key = ANY(%s)
        """,
        (list(dedup_keys),),
    )


def _rows(emails: Sequence[NewEmail]) -> Jsonb:
    """Give all that is written of the emails as one value: it costs less than a list per column."""
    return Jsonb(
        [
            {
                "id": str(email.id),
                "account_id": None if email.account_id is None else str(email.account_id),
                "dedup_key": email.dedup_key,
                "intent_hash": _hex(email.intent_hash),
                "template": email.template,
                "template_checksum": email.template_checksum,
                "sender": email.sender,
                "on_ambiguous": email.on_ambiguous,
                "priority": email.priority,
                "send_at": None if email.send_at is None else email.send_at.isoformat(),
                "not_after": None if email.not_after is None else email.not_after.isoformat(),
                "data": email.data,
                "reply_to": email.reply_to,
                "headers": email.headers,
                "recipients": [
                    {
                        "id": str(recipient.id),
                        "kind": recipient.kind,
                        "address": recipient.address,
                        "address_hash": _hex(recipient.address_hash),
                    }
                    for recipient in email.recipients
                ],
            }
            for email in emails
        ]
    )


def _hex(value: bytes) -> str:
    return "\\x" + value.hex()
