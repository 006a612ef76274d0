"""Events as the text that SES publishes, in both of its shapes."""

import json
from typing import Any

from mail_service.sandbox.events import Event, Identity, ses_time
from mail_service.sandbox.knobs import EventKind
from mail_service.sandbox.mails import Mail

_HEADERS_SHOWN_BYTES = 10 * 1024
_DETAIL_KEYS: dict[EventKind, str] = {
    "Send": "send",
    "Delivery": "delivery",
    "Bounce": "bounce",
    "Complaint": "complaint",
    "Reject": "reject",
    "DeliveryDelay": "deliveryDelay",
}


def event_json(event: Event, mail: Mail, identity: Identity) -> str:
    """The event as the text of an SNS message."""
    published = mail.draft.configuration_set is not None
    document = {
        "eventType" if published else "notificationType": event.kind,
        "mail": _mail_object(event, mail, identity, published=published),
        _DETAIL_KEYS[event.kind]: event.details,
    }
    # SES ends the text of published events with a newline, and signs it.
    return json.dumps(document, separators=(",", ":")) + ("\n" if published else "")


def _mail_object(
    event: Event, mail: Mail, identity: Identity, *, published: bool
) -> dict[str, Any]:
    draft = mail.draft
    domain = draft.source_address.rpartition("@")[2].lower()
    headers, truncated = _shown_headers(draft.headers)
    common: dict[str, Any] = {"from": [draft.source]}
    if draft.to:
        common["to"] = draft.to
    if draft.cc:
        common["cc"] = draft.cc
    if draft.reply_to:
        common["replyTo"] = draft.reply_to
    common |= {"messageId": mail.message_id, "subject": draft.subject}
    found: dict[str, Any] = {
        "timestamp": ses_time(mail.accepted_at),
        "source": draft.source,
        "sourceArn": f"arn:aws:ses:{identity.region}:{identity.account_id}:identity/{domain}",
        "sendingAccountId": identity.account_id,
        "messageId": mail.message_id,
        "destination": [*draft.to, *draft.cc, *draft.bcc],
        "headersTruncated": truncated,
        "headers": headers,
        "commonHeaders": common,
    }
    if not published:
        return found | {"sourceIp": mail.source_ip, "callerIdentity": mail.caller}
    found["tags"] = {
        "ses:operation": ["SendEmail"],
        "ses:configuration-set": [draft.configuration_set],
        "ses:source-ip": [mail.source_ip],
        "ses:from-domain": [domain],
        "ses:caller-identity": [mail.caller],
        **{name: [value] for name, value in draft.tags.items()},
    }
    if event.kind == "Delivery":
        found["tags"]["ses:outgoing-ip"] = ["192.0.2.10"]
    return found


def _shown_headers(headers: list[tuple[str, str]]) -> tuple[list[dict[str, str]], bool]:
    shown: list[dict[str, str]] = []
    size = 0
    for name, value in headers:
        size += len(name) + len(value) + 4
        if size > _HEADERS_SHOWN_BYTES:
            return shown, True
        shown.append({"name": name, "value": value})
    return shown, False
