"""Submission: an email, or many, written in one transaction.

Each function checks the whole request first, outside any transaction, and gives the write to be
done: a function of a transaction. So the caller can put the write and the answer to an idempotency
key into one transaction (:mod:`idempotency`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from mail_service.domain.address import keyed_hash
from mail_service.domain.content import Template
from mail_service.domain.states import OnAmbiguous
from mail_service.errors import InvalidFields, RequestRefused
from mail_service.runtime import Runtime
from mail_service.store import accounts, housekeeping, views
from mail_service.store.database import Tx
from mail_service.store.intake import Kind, NewEmail
from mail_service.workflows import intake
from mail_service.workflows.checks import (
    check_addresses,
    check_data,
    check_dedup_key,
    check_headers,
    check_sender,
    check_template,
    check_times,
)
from mail_service.workflows.intake import DEFAULT_PRIORITY, Submitted, Write

MAX_RECIPIENTS = 50  # of one SES call, To, Cc and Bcc together
MAX_REPLY_TO = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailRequest:
    """One mail to be sent: to addresses, or to the address of an account."""

    dedup_key: str
    template: str
    to: Sequence[str] = field(default=(), repr=False)
    account_id: UUID | None = None
    cc: Sequence[str] = field(default=(), repr=False)
    bcc: Sequence[str] = field(default=(), repr=False)
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    reply_to: Sequence[str] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sender: str | None = field(default=None, repr=False)
    on_ambiguous: OnAmbiguous | None = None
    send_at: datetime | None = None
    not_after: datetime | None = None
    priority: int = DEFAULT_PRIORITY


def submit_email(rt: Runtime, request: EmailRequest, *, actor: str) -> Write[Submitted]:
    """Check a request to send and give its write: one email, or the one that stands under its key.

    The batch of one, whose refusal is raised: InvalidFields by the checks, and by the write where the
    account is not there; Conflict by the write when the key stands for another intent.
    """
    batch = _write(rt, [_check(rt, request)], actor)

    def found(tx: Tx) -> Submitted | None:
        told = batch.found(tx)
        return None if told is None else _only(told)

    return Write(lambda tx: _only(batch(tx)), found)


def submit_emails(
    rt: Runtime, requests: Sequence[EmailRequest | RequestRefused], *, actor: str
) -> Write[list[Submitted | RequestRefused]]:
    """Check many requests and give their write: what each comes to, as if they came one after the other.

    A refusal is that request's result and no other's. One that was refused before stays where it is.
    """
    return _write(rt, [_checked(rt, request) for request in requests], actor)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A request that is sound by itself. What depends on the database is still to be looked at."""

    request: EmailRequest
    template: Template
    recipients: Sequence[tuple[Kind, str]]
    reply_to: Sequence[str]
    sender: str
    intent: bytes
    id: UUID


def _checked(rt: Runtime, request: EmailRequest | RequestRefused) -> _Checked | RequestRefused:
    if isinstance(request, RequestRefused):
        return request
    try:
        return _check(rt, request)
    except InvalidFields as refused:
        return refused


def _check(rt: Runtime, request: EmailRequest) -> _Checked:
    problems: dict[str, str] = {}
    check_dedup_key(request.dedup_key, problems)
    if bool(request.to) == (request.account_id is not None):
        problems["to"] = "expected either to or account_id"
    recipients = _check_recipients(rt, request, problems)
    reply_to: list[str] = []
    if len(request.reply_to) > MAX_REPLY_TO:
        problems["reply_to"] = f"expected at most {MAX_REPLY_TO} addresses"
    else:
        reply_to = check_addresses(rt, "reply_to", request.reply_to, problems)
    sender = rt.settings.default_sender
    if request.sender is not None:
        sender = check_sender(rt, request.sender, problems)
    if request.not_after and request.send_at and request.not_after <= request.send_at:
        problems["not_after"] = "expected a time after send_at"
    if not 0 <= request.priority <= 9:
        problems["priority"] = "expected a whole number from 0 to 9, higher first"
    check_headers(request.headers, problems)
    template = check_template(rt, "template", request.template, problems)
    check_data(template, request.data, problems)
    if problems or template is None:
        raise InvalidFields(problems)
    intent = intake.intent(
        rt,
        {
            "template": request.template,
            "to": [address for kind, address in recipients if kind == "to"],
            "account": str(request.account_id) if request.account_id else None,
            "data": request.data,
            "reply_to": reply_to,
            "from": request.sender,
            "on_ambiguous": request.on_ambiguous,
            "send_at": request.send_at.isoformat() if request.send_at else None,
            "not_after": request.not_after.isoformat() if request.not_after else None,
            "priority": request.priority,
            # Named only where they are given: emails stand from before they could be.
            **{
                kind: given
                for kind in ("cc", "bcc")
                if (given := [address for known, address in recipients if known == kind])
            },
            **({"headers": dict(request.headers)} if request.headers else {}),
        },
    )
    return _Checked(
        request=request,
        template=template,
        recipients=recipients,
        reply_to=reply_to,
        sender=sender,
        intent=intent,
        id=rt.new_id(),
    )


def _check_recipients(
    rt: Runtime, request: EmailRequest, problems: dict[str, str]
) -> list[tuple[Kind, str]]:
    """Give everybody the request names; an account's address is known later, and counts."""
    named: dict[Kind, Sequence[str]] = {"to": request.to, "cc": request.cc, "bcc": request.bcc}
    if sum(map(len, named.values())) + (request.account_id is not None) > MAX_RECIPIENTS:
        longest = max(named, key=lambda kind: len(named[kind]))
        problems[longest] = f"expected at most {MAX_RECIPIENTS} recipients, to, cc and bcc together"
        return []  # so many are not looked at
    return [
        (kind, address)
        for kind, texts in named.items()
        for address in check_addresses(rt, kind, texts, problems)
    ]


def _write(
    rt: Runtime, asked: Sequence[_Checked | RequestRefused], actor: str
) -> Write[list[Submitted | RequestRefused]]:
    told: list[Submitted | RequestRefused] = []

    def write(tx: Tx) -> list[Submitted | RequestRefused]:
        accounts = _accounts(tx, asked)
        ready = [_ready(rt, tx, one, accounts) for one in asked]
        done = iter(intake.submit(tx, [one for one in ready if isinstance(one, NewEmail)], actor))
        told[:] = [next(done) if isinstance(one, NewEmail) else one for one in ready]
        return told

    def found(tx: Tx) -> list[Submitted | RequestRefused] | None:
        # Its rows came with the commit or not at all; what was told beside them is the same either way.
        new = [one.email.email.id for one in told if isinstance(one, Submitted) and one.created]
        return told if len(views.by_ids(tx, new)) == len(new) else None

    return Write(write, found)


def _accounts(tx: Tx, asked: Sequence[_Checked | RequestRefused]) -> dict[UUID, str]:
    """Give the addresses of the accounts that are asked for, where they have one."""
    ids = {
        one.request.account_id
        for one in asked
        if isinstance(one, _Checked) and one.request.account_id is not None
    }
    if not ids:
        return {}
    return {
        account.id: account.email
        for account in accounts.by_ids(tx, list(ids))
        if account.email is not None
    }


def _ready(
    rt: Runtime, tx: Tx, one: _Checked | RequestRefused, addresses: Mapping[UUID, str]
) -> NewEmail | RequestRefused:
    if isinstance(one, RequestRefused):
        return one
    request, recipients = one.request, one.recipients
    try:
        check_times(tx, send_at=request.send_at, not_after=request.not_after)
    except InvalidFields as refused:
        return refused
    if request.account_id is not None:
        if request.account_id not in addresses:
            return InvalidFields({"account_id": "expected the id of an account"})
        own: list[tuple[Kind, str]] = [("to", addresses[request.account_id])]
        recipients = [*own, *recipients]
    return NewEmail(
        id=one.id,
        account_id=request.account_id,
        dedup_key=request.dedup_key,
        intent_hash=one.intent,
        template=one.template.name,
        template_checksum=one.template.checksum,
        sender=one.sender,
        on_ambiguous=request.on_ambiguous or OnAmbiguous(one.template.on_ambiguous),
        priority=request.priority,
        send_at=request.send_at,
        not_after=request.not_after,
        data=request.data,
        reply_to=tuple(one.reply_to),
        headers=tuple(request.headers.items()),
        recipients=tuple(
            intake.recipient(rt, kind, address, keyed_hash(rt.address_key, address))
            for kind, address in recipients
        ),
    )


def _only(results: Sequence[Submitted | RequestRefused]) -> Submitted:
    (result,) = results
    if isinstance(result, RequestRefused):
        raise result
    return result


def wake(rt: Runtime) -> None:
    """Tell every drain that listens that mail is due. Losing it costs a poll, no mail."""
    with rt.db.statement() as tx:
        housekeeping.wake(tx)
