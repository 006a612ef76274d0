"""Registration: an account and the email that every new account gets, written together or not at all."""

from dataclasses import dataclass, field
from typing import Any

from mail_service.domain.address import CONTROL, keyed_hash
from mail_service.domain.states import OnAmbiguous
from mail_service.errors import Conflict, InvalidFields
from mail_service.runtime import Runtime
from mail_service.store import accounts, views
from mail_service.store import intake as rows
from mail_service.store.accounts import Account
from mail_service.store.database import Tx
from mail_service.store.intake import NewAccount, NewEmail
from mail_service.store.views import EmailView
from mail_service.workflows import intake
from mail_service.workflows.checks import check_address, check_data, check_template
from mail_service.workflows.intake import DEFAULT_PRIORITY, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest:
    """Somebody signs up."""

    email: str = field(repr=False)
    name: str | None = field(default=None, repr=False)
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The new account and its email."""

    account: Account
    email: EmailView


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

    account = NewAccount(id=account_id, email=address, address_hash=hashed, name=name)
    email = NewEmail(
        id=email_id,
        account_id=account_id,
        dedup_key=f"welcome:{account_id}:v1",
        intent_hash=intake.intent(rt, {"account": str(account_id)}),
        template=template.name,
        template_checksum=template.checksum,
        sender=rt.settings.default_sender,
        on_ambiguous=OnAmbiguous(template.on_ambiguous),
        priority=DEFAULT_PRIORITY,
        send_at=None,
        not_after=None,
        data=data,
        reply_to=(),
        headers=(),
        recipients=(intake.recipient(rt, "to", address, hashed),),
    )

    def write(tx: Tx) -> Opened:
        created_at = rows.open_account(tx, account, email, actor)
        if created_at is None:
            raise Conflict("this address has an account")
        return Opened(
            account=Account(id=account_id, email=address, name=name, created_at=created_at),
            email=intake.written_view(tx, email, created_at),
        )

    def found(tx: Tx) -> Opened | None:
        known, view = accounts.by_id(tx, account_id), views.by_id(tx, email_id)
        return Opened(account=known, email=view) if known and view else None

    return Write(write, found)
