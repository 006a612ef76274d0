"""What callers send: one model per body and per set of query parameters, also for the documentation.

A field that is not here is refused by name, never ignored.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
    StrictBool,
    WithJsonSchema,
)

from mail_service.domain.deciding import Decision
from mail_service.domain.events import EventStatus
from mail_service.domain.states import EmailState, OnAmbiguous
from mail_service.domain.strict_json import read_time
from mail_service.domain.suppression import ReleaseRule, SuppressionReason

MAX_PAGE = 100
PAGE = 20


_OFFSET = re.compile(r"(?:[Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)


def _time(given: object) -> datetime:
    # What AWS writes is read with less: there, a time without an offset is known to be UTC.
    at = read_time(given)
    if at is None:
        raise ValueError("expected an RFC 3339 time such as 2026-07-29T12:00:00Z (write + as %2B)")
    if not _OFFSET.search(str(given)):
        raise ValueError(
            "expected an offset at its end: 2026-07-29T12:00:00Z, or +02:00 for Z (write + as %2B)"
        )
    return at


def _as_list(given: object) -> object:
    return [given] if isinstance(given, str) else given


def _number(given: object) -> object:
    # Query parameters are text; only plain digits are a number here.
    return int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 10 else given


def _flag(given: object) -> object:
    # A parameter that stands twice comes as a list.
    return given == "true" if given in ("true", "false") else given


Time = Annotated[datetime, BeforeValidator(_time)]
Address = Annotated[str, Field(max_length=400, examples=["ada@example.com"])]
ReplyTo = Annotated[
    list[Address],
    BeforeValidator(_as_list),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        mode="validation",
    ),
]
Flag = Annotated[
    bool,
    BeforeValidator(_flag),
    Field(strict=True),
]


_DATA = "What the template's variables stand for"


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class NewAccount(_Sent):
    """Somebody signs up."""

    email: Address = Field(description="One address per account")
    # The limits that only the document tells are checked by the workflow, which has better words.
    name: str | None = Field(
        None,
        description="1 to 200 characters; stands in the template as `name`",
        examples=["Ada Lovelace"],
        json_schema_extra={"minLength": 1, "maxLength": 200},
    )
    data: dict[str, Any] | None = Field(None, description=_DATA)


class NewEmail(_Sent):
    """One mail to be sent. Either `to` or `account_id` says to whom."""

    dedup_key: str = Field(
        description="The idempotency key: one key, one mail. Make it from an id of yours",
        examples=["order-1042:confirmation"],
        json_schema_extra={"minLength": 1, "maxLength": 200},
    )
    template: str = Field(max_length=200, examples=["welcome-v1"])
    to: list[Address] | None = Field(
        None, max_length=50, description="1 to 50 bare addresses", examples=[["ada@example.com"]]
    )
    account_id: UUID | None = Field(None, description="Write to this account's address")
    cc: list[Address] | None = Field(
        None, max_length=50, description="Bare addresses; 50 recipients in all"
    )
    bcc: list[Address] | None = Field(
        None, max_length=50, description="As `cc`, seen by nobody else"
    )
    data: dict[str, Any] | None = Field(None, description=_DATA)
    reply_to: ReplyTo | None = Field(None, description="One address, or up to 10")
    headers: dict[str, str] | None = Field(
        None,
        description="Up to 14 headers of your own, ASCII; none that another field or SES sets",
        examples=[{"List-Unsubscribe": "<https://example.com/u/1042>"}],
    )
    from_: str | None = Field(
        None, alias="from", description="`Name <a@b>` or `a@b`; default is `MAIL_FROM`"
    )
    on_ambiguous: OnAmbiguous | None = Field(
        None, description="What to do when nobody can know whether SES took it"
    )
    send_at: Time | None = Field(None, description="Not before this time; default is now")
    not_after: Time | None = Field(None, description="No call to SES after this time")
    priority: Annotated[int, Field(strict=True)] | None = Field(
        None, ge=0, le=9, description="0 to 9, higher first; default 5"
    )


class NewEmails(_Sent):
    """Up to 500 mails to be sent, each as if it came alone."""

    # Each is checked by itself: what one is refused for is no matter of the others.
    emails: list[SkipValidation[NewEmail]] = Field(max_length=500)


class Resolution(_Sent):
    """Take an email out of doubt."""

    decision: Decision
    reason: str = Field(min_length=1, max_length=500)
    attempt_id: UUID = Field(description="The newest attempt, as you saw it")


class Nothing(_Sent):
    """No field at all."""


class Requeue(_Sent):
    """Open a new epoch for a failed or suppressed email."""

    reason: str = Field(min_length=1, max_length=500)
    not_after: Time | None = Field(None, description="A new deadline; needed if the old one passed")
    epoch: Annotated[int, Field(strict=True)] | None = Field(
        None, ge=0, description="The epoch you saw; refused when another one has opened since"
    )
    attempt_id: UUID | None = Field(None, description="The newest attempt you saw; likewise")


class Reason(_Sent):
    """Why."""

    reason: str = Field(min_length=1, max_length=500)


class NewSuppression(_Sent):
    """Stop mail to an address."""

    address: Address
    reason: Literal["manual"] | None = "manual"
    note: str | None = Field(None, max_length=500)


class Release(_Sent):
    """Lift a suppression, by a stated rule."""

    rule: ReleaseRule
    reason: str = Field(min_length=1, max_length=500)
    confirm: StrictBool | None = Field(
        False, description="Must be true to release a complaint, by `consent_renewed`"
    )


class _Paged(_Sent):
    limit: Annotated[int, BeforeValidator(_number)] = Field(PAGE, ge=1, le=MAX_PAGE, strict=True)
    after: str | None = Field(None, max_length=200, description="`next` of the page before")


class EmailQuery(_Paged):
    """Which emails."""

    state: EmailState | None = None
    template: str | None = None
    recipient: str | None = Field(None, description="An address; matched without regard to case")
    provider_message_id: str | None = Field(None, description="The MessageId that SES gave")
    created_after: Time | None = Field(None, description="This time or later")
    created_before: Time | None = Field(None, description="Earlier than this time")


class SuppressionQuery(_Paged):
    """Which suppressions."""

    address: str | None = None
    reason: SuppressionReason | None = None
    active: Flag | None = Field(None, description="`true`: not released; `false`: released")


class EventQuery(_Paged):
    """Which events."""

    status: EventStatus | None = None
