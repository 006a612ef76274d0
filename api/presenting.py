"""What callers get: the workflows' views as the JSON of interface.md, section 4.

The classes are also the documentation's schemas. Times are UTC and end in Z.
"""

from datetime import datetime
from typing import Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from mail_service.domain.events import EventKind
from mail_service.domain.facts import RecipientStatus
from mail_service.domain.states import AttemptState, EmailState, OnAmbiguous
from mail_service.store import accounts
from mail_service.store.views import EmailView

Item = TypeVar("Item")


class Shown(BaseModel):
    """Something callers get. Read from what a workflow gave, by its fields' names."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Page(Shown, Generic[Item]):
    """Some items, newest first. `next` is null on the last page."""

    items: list[Item]
    next: str | None


class Account(Shown):
    """A registration. `email` and `name` are null after erasure."""

    id: UUID
    email: str | None
    name: str | None
    created_at: datetime


class Recipient(Shown):
    """One recipient and what is known of it; facts are never undone. `status` is derived from them."""

    address: str | None
    kind: Literal["to", "cc", "bcc"]
    status: RecipientStatus
    delivered_at: datetime | None
    bounced_at: datetime | None
    bounce_type: str | None
    bounce_subtype: str | None
    complained_at: datetime | None
    complaint_type: str | None
    delayed_at: datetime | None
    rejected_at: datetime | None
    suppressed_at: datetime | None


class Attempt(Shown):
    """One call to SES. `unconfirmed`: accepted a quarter of an hour ago, and no event speaks of it."""

    id: UUID
    number: int
    epoch: int
    state: AttemptState
    request_tag: str
    provider_message_id: str | None
    error_class: str | None
    error_code: str | None
    started_at: datetime
    finished_at: datetime | None
    decision: str
    resolved_by: str | None
    unconfirmed: bool


class EmailEvent(Shown):
    """One event of SES about this email."""

    id: UUID
    kind: EventKind
    occurred_at: datetime
    received_at: datetime


class Decision(Shown):
    """What an operator or the stated policy decided."""

    by: str
    decision: str
    reason: str
    at: datetime


class Email(Shown):
    """An email and everything that happened to it."""

    id: UUID
    dedup_key: str
    template: str
    account_id: UUID | None
    state: EmailState
    reason: str | None
    on_ambiguous: OnAmbiguous
    epoch: int
    priority: int
    created_at: datetime
    next_attempt_at: datetime | None
    not_after: datetime | None
    finished_at: datetime | None
    policy_note: str | None
    recipients: list[Recipient]
    attempts: list[Attempt]
    events: list[EmailEvent]
    decisions: list[Decision]


class EmailPage(Page[Email]):
    """Some emails, newest first. `next` is null on the last page."""


class AccountOpened(Shown):
    """The new account and its email."""

    account: Account
    email: Email


class Problem(Shown):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class InvalidFieldsProblem(Problem):
    """An error that names each field which is not usable."""

    errors: dict[str, str]


class Taken(Shown):
    """One email of a batch: 201 for a new one, 200 for the one that stands under its key."""

    status: Literal[200, 201]
    email: Email


class Refused(Shown):
    """One email of a batch that was refused; fields are named as they stand in it."""

    status: Literal[409, 422]
    error: InvalidFieldsProblem | Problem


class Batch(Shown):
    """What became of each email, in the order in which they came."""

    items: list[Taken | Refused]


def account(row: accounts.Account) -> Account:
    """Present an account."""
    return Account.model_validate(row)


def email(view: EmailView) -> Email:
    """Present an email with everything that belongs to it."""
    row = view.email
    return Email(
        id=row.id,
        dedup_key=row.dedup_key,
        template=row.template,
        account_id=row.account_id,
        state=row.state,
        reason=row.reason,
        on_ambiguous=row.on_ambiguous,
        epoch=row.epoch,
        priority=row.priority,
        created_at=row.created_at,
        next_attempt_at=row.next_attempt_at,
        not_after=row.not_after,
        finished_at=row.finished_at,
        policy_note=row.policy_note,
        recipients=[Recipient.model_validate(recipient) for recipient in view.recipients],
        attempts=[Attempt.model_validate(attempt) for attempt in view.attempts],
        events=[EmailEvent.model_validate(event) for event in view.events],
        decisions=[Decision.model_validate(decision) for decision in view.decisions],
    )
