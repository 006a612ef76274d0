"""The steps of the protocol as tests take them: one at a time, or not at all."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from mail_service.domain.events import Notification
from mail_service.domain.outcomes import Held, Refused
from mail_service.ports import TAG_NAME, OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store.views import EmailView
from mail_service.workflows import dispatch, ingest, observe, record, registration, submit
from mail_service.workflows.dispatch import Claim, Ended
from mail_service.workflows.ingest import Taken

TOPIC = "arn:aws:sns:eu-west-1:123456789012:ses-events"


def sign_up(rt: Runtime, email: str = "ada@example.com", **request: Any) -> EmailView:
    """Open an account; gives its email."""
    write = registration.open_account(
        rt, registration.AccountRequest(email=email, **request), actor="test"
    )
    return rt.db.transact(write).email


def write_email(
    rt: Runtime, key: str = "order-1", to: tuple[str, ...] = ("ada@example.com",), **request: Any
) -> EmailView:
    """Submit an email to addresses."""
    asked = submit.EmailRequest(dedup_key=key, template="welcome-v1", to=to, **request)
    return rt.db.transact(submit.submit_email(rt, asked, actor="test")).email


def take_one(rt: Runtime) -> Claim:
    """Claim exactly one email."""
    (claim,) = dispatch.take(rt, 5)
    return claim


def call(rt: Runtime, claim: Claim) -> Ended:
    """Compose and make the call."""
    outgoing = dispatch.compose(rt, claim)
    if isinstance(outgoing, Held | Refused):
        return Ended(row=claim.row, result=outgoing)
    return dispatch.send(rt, claim, outgoing)


def send_all(rt: Runtime, limit: int = 50) -> list[Claim]:
    """Take, call and record whatever is due, once."""
    claims = dispatch.take(rt, limit)
    left = record.results(rt, [call(rt, claim) for claim in claims])
    assert left == []
    return claims


def look(rt: Runtime, email: EmailView | UUID) -> EmailView:
    """Read an email back."""
    return observe.email(rt, email if isinstance(email, UUID) else email.email.id)


def ses_event(
    kind: str = "Send",
    *,
    tag: str | None = None,
    message_id: str | None = "message-1",
    at: str = "2026-11-29T10:00:00.000Z",
    recipients: tuple[str, ...] = ("ada@example.com",),
    **detail: Any,
) -> dict[str, Any]:
    """Give an SES event in the event-publishing shape."""
    mail: dict[str, Any] = {
        "timestamp": "2026-11-29T09:59:59.000Z",
        "destination": list(recipients),
    }
    if message_id is not None:
        mail["messageId"] = message_id
    if tag is not None:
        mail["tags"] = {TAG_NAME: [tag]}
    names = {
        "Send": ("send", None),
        "Delivery": ("delivery", "recipients"),
        "Bounce": ("bounce", "bouncedRecipients"),
        "Complaint": ("complaint", "complainedRecipients"),
        "DeliveryDelay": ("deliveryDelay", "delayedRecipients"),
        "Reject": ("reject", None),
        "Rendering Failure": ("failure", None),
        "Open": ("open", None),
    }
    name, listed = names[kind]
    body: dict[str, Any] = {"timestamp": at} | detail
    if kind == "Bounce":
        body = {"bounceType": "Permanent", "bounceSubType": "General"} | body
    if listed == "recipients":
        body[listed] = list(recipients)
    elif listed is not None:
        body[listed] = [{"emailAddress": address} for address in recipients]
    return {"eventType": kind, "mail": mail, name: body}


_serial = iter(range(1, 10**9))


def bring(rt: Runtime, event: dict[str, Any] | str, sns_message_id: str | None = None) -> Taken:
    """Let SNS bring an event, as if its signature had been checked (tests/api does check it)."""
    notification = Notification(
        topic_arn=TOPIC,
        sns_message_id=sns_message_id or str(UUID(int=next(_serial))),
        at=datetime(2026, 11, 29, 10, 0, 1, tzinfo=UTC),
        text=event if isinstance(event, str) else json.dumps(event),
    )
    return ingest.accept(with_envelope(rt, lambda: notification), {}, b"")


def with_envelope(rt: Runtime, give: Callable[[], Any]) -> Runtime:
    """Give a runtime whose webhook requests are genuine and carry this."""
    from dataclasses import replace

    return replace(rt, read_envelope=lambda headers, body: give())


def outgoing_tag(email: OutgoingEmail) -> str:
    """The tag a call bore."""
    return email.request_tag
