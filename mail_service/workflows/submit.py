"""Intake: an account and its email, or an email alone, written in one transaction.

Each function checks the whole request first, outside any transaction, and gives the write to be
done: a function of a transaction. So the caller can put the write and the answer to an idempotency
key into one transaction (:mod:`idempotency`).
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from mail_service.domain.address import CONTROL, keyed_hash
from mail_service.domain.states import OnAmbiguous
from mail_service.errors import Conflict, Impossible, InvalidFields
from mail_service.runtime import Runtime
from mail_service.store import accounts, housekeeping, outbox, views
from mail_service.store.accounts import Account
from mail_service.store.database import Tx
from mail_service.store.outbox import NewEmail
from mail_service.store.views import EmailView
from mail_service.workflows import intake
from mail_service.workflows.checks import (
    check_address,
    check_data,
    check_dedup_key,
    check_sender,
    check_template,
    check_times,
)
from mail_service.workflows.intake import Write

DEFAULT_PRIORITY = 5
MAX_RECIPIENTS = 50  # of one SES call, To, Cc and Bcc together
MAX_REPLY_TO = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest:
    """Somebody signs up."""

    email: str = field(repr=False)
    name: str | None = field(default=None, repr=False)
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailRequest:
    """One mail to be sent: to addresses, or to the address of an account."""

    dedup_key: str
    template: str
    to: Sequence[str] = field(default=(), repr=False)
    account_id: UUID | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    reply_to: Sequence[str] = field(default=(), repr=False)
    sender: str | None = field(default=None, repr=False)
    on_ambiguous: OnAmbiguous | None = None
    send_at: datetime | None = None
    not_after: datetime | None = None
    priority: int = DEFAULT_PRIORITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The new account and its email."""

    account: Account
    email: EmailView


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The email under this key, and whether this request wrote it."""

    email: EmailView
    created: bool


def open_account(rt: Runtime, request: AccountRequest, *, actor: str) -> Write[Opened]:
    """Check a sign-up and give its write: account, outbox row and recipient together, or none.

    The checks raise InvalidFields; the write raises Conflict when the address has an account.
    """
    problems: dict[str, str] = {}
    address = check_address(rt, "email", request.email, problems)
    name = request.name
    if name is not None and (CONTROL.search(name) or not 0 < len(name) <= 200):
        problems["name"] = "expected 1 to 200 characters, none of them a control character"
    template = check_template(rt, "template", rt.settings.account_template, problems)
    data = request.data if name is None else {**request.data, "name": name}
    if "name" not in problems:  # else it would be named a second time, as a part of data
        check_data(template, data, problems)
    if problems or address is None or template is None:
        raise InvalidFields(problems)
    hashed = keyed_hash(rt.address_key, address)
    account_id, email_id = rt.new_id(), rt.new_id()

    def write(tx: Tx) -> Opened:
        account = accounts.add(
            tx, account_id=account_id, email=address, address_hash=hashed, name=name
        )
        if account is None:
            raise Conflict("this address has an account")
        email = NewEmail(
            id=email_id,
            account_id=account.id,
            dedup_key=f"welcome:{account.id}:v1",
            intent_hash=intake.intent(rt, {"account": str(account.id)}),
            template=template.name,
            template_checksum=template.checksum,
            sender=rt.settings.default_sender,
            on_ambiguous=OnAmbiguous(template.on_ambiguous),
            priority=DEFAULT_PRIORITY,
            send_at=None,
            not_after=None,
            data=data,
            reply_to=(),
            recipients=(intake.recipient(rt, address, hashed),),
        )
        view = intake.add(tx, email, actor)
        if view is None:
            raise Impossible("a new account's id was used in a dedup key before")
        return Opened(account=account, email=view)

    def found(tx: Tx) -> Opened | None:
        account, view = accounts.by_id(tx, account_id), views.by_id(tx, email_id)
        return Opened(account=account, email=view) if account and view else None

    return Write(write, found)


def submit_email(rt: Runtime, request: EmailRequest, *, actor: str) -> Write[Submitted]:
    """Check a request to send and give its write: one email, or the one that stands under its key.

    The checks raise InvalidFields; so does the write where the account is not there. The write
    raises Conflict when the key stands for another intent.
    """
    problems: dict[str, str] = {}
    check_dedup_key(request.dedup_key, problems)
    if bool(request.to) == (request.account_id is not None):
        problems["to"] = "expected either to or account_id"
    if len(request.to) > MAX_RECIPIENTS:
        problems["to"] = f"expected at most {MAX_RECIPIENTS} addresses"
    to = [check_address(rt, f"to.{i}", text, problems) for i, text in enumerate(request.to)]
    if len(request.reply_to) > MAX_REPLY_TO:
        problems["reply_to"] = f"expected at most {MAX_REPLY_TO} addresses"
    reply_to = [
        check_address(rt, f"reply_to.{i}", text, problems)
        for i, text in enumerate(request.reply_to)
    ]
    sender = rt.settings.default_sender
    if request.sender is not None:
        sender = check_sender(rt, request.sender, problems)
    if request.not_after and request.send_at and request.not_after <= request.send_at:
        problems["not_after"] = "expected a time after send_at"
    if not 0 <= request.priority <= 9:
        problems["priority"] = "expected a whole number from 0 to 9, higher first"
    template = check_template(rt, "template", request.template, problems)
    check_data(template, request.data, problems)
    if problems or template is None:
        raise InvalidFields(problems)
    intent = intake.intent(
        rt,
        {
            "template": request.template,
            "to": to,
            "account": str(request.account_id) if request.account_id else None,
            "data": request.data,
            "reply_to": reply_to,
            "from": request.sender,
            "on_ambiguous": request.on_ambiguous,
            "send_at": request.send_at.isoformat() if request.send_at else None,
            "not_after": request.not_after.isoformat() if request.not_after else None,
            "priority": request.priority,
        },
    )

    email_id = rt.new_id()

    def write(tx: Tx) -> Submitted:
        check_times(tx, send_at=request.send_at, not_after=request.not_after)
        addresses = [address for address in to if address is not None]
        if request.account_id is not None:
            account = accounts.by_id(tx, request.account_id)
            if account is None or account.email is None:
                raise InvalidFields({"account_id": "expected the id of an account"})
            addresses = [account.email]
        email = NewEmail(
            id=email_id,
            account_id=request.account_id,
            dedup_key=request.dedup_key,
            intent_hash=intent,
            template=template.name,
            template_checksum=template.checksum,
            sender=sender,
            on_ambiguous=request.on_ambiguous or OnAmbiguous(template.on_ambiguous),
            priority=request.priority,
            send_at=request.send_at,
            not_after=request.not_after,
            data=request.data,
            reply_to=tuple(address for address in reply_to if address is not None),
            recipients=tuple(
                intake.recipient(rt, address, keyed_hash(rt.address_key, address))
                for address in addresses
            ),
        )
        view = intake.add(tx, email, actor)
        if view is not None:
            return Submitted(email=view, created=True)
        standing = outbox.standing(tx, request.dedup_key)
        if standing is None:
            raise Impossible("a dedup key was taken and is not there")
        if not hmac.compare_digest(standing.intent_hash, intent):
            raise Conflict("dedup_key stands for an email with another content or recipient")
        known = views.by_id(tx, standing.id)
        if known is None:
            raise Impossible("an email is gone whose key is there")
        return Submitted(email=known, created=False)

    def found(tx: Tx) -> Submitted | None:
        view = views.by_id(tx, email_id)
        return Submitted(email=view, created=True) if view else None

    return Write(write, found)


def wake(rt: Runtime) -> None:
    """Tell every drain that listens that mail is due. Losing it costs a poll, no mail."""
    with rt.db.statement() as tx:
        housekeeping.wake(tx)
