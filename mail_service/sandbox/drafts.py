"""Reads a SendEmail request into a draft, with the rules that SES's model does not hold."""

import email.policy
import re
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.utils import getaddresses
from typing import Any

from mail_service.sandbox.addresses import bare_address
from mail_service.sandbox.mails import Draft
from mail_service.sandbox.ses_errors import SesError, bad_request, not_implemented

_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
_MOST_RECIPIENTS = 50
_MOST_BYTES = 40 * 1024 * 1024
_MOST_HEADER = 996

Params = dict[str, Any]


def read_draft(params: Params, *, size: int) -> Draft:
    """The mail that a SendEmail request asks for; a BadRequestException where SES refuses it."""
    content: Params = params["Content"]
    if len(content) != 1:
        raise bad_request("Content must have exactly one of Simple, Raw and Template.")
    if "Template" in content:
        raise not_implemented("SendEmail with Content.Template")
    if size > _MOST_BYTES:
        raise bad_request(f"Message length is more than {_MOST_BYTES} bytes long: '{size}'.")
    draft = _raw(params, content["Raw"]) if "Raw" in content else _simple(params, content["Simple"])
    _check_tags(draft.tags)
    _check_recipients(draft)
    for address in draft.reply_to:
        bare_address(address)
    return draft


def _check_tags(tags: dict[str, str]) -> None:
    for name, value in tags.items():
        for what, text in (("name", name), ("value", value)):
            if not _TAG.fullmatch(text):
                raise _bad_tag(what, text)


def _bad_tag(what: str, text: str) -> SesError:
    if len(text) > 256:
        return bad_request(f"Tag {what} <{text}> is longer than 256 characters.")
    if not text:
        return bad_request(f"The tag {what} must be specified.")
    return bad_request(
        f"Invalid tag {what} <{text}>: only alphanumeric ASCII characters, '_', and '-' are "
        "allowed."
    )


def _check_recipients(draft: Draft) -> None:
    if not draft.recipients:
        raise bad_request("There are no recipients specified")
    if len(draft.recipients) > _MOST_RECIPIENTS:
        raise bad_request(f"Recipient count exceeds {_MOST_RECIPIENTS}.")


def _destination(params: Params) -> tuple[list[str], list[str], list[str]]:
    destination: Params = params.get("Destination") or {}
    return (
        destination.get("ToAddresses") or [],
        destination.get("CcAddresses") or [],
        destination.get("BccAddresses") or [],
    )


def _tags(params: Params) -> dict[str, str]:
    tags: list[Params] = params.get("EmailTags") or []
    return {tag["Name"]: tag["Value"] for tag in tags}


def _source(text: str | None) -> str:
    if not text:
        raise bad_request("Missing final '@domain'")
    return bare_address(text)


def _simple(params: Params, message: Params) -> Draft:
    body: Params = message["Body"]
    if not body:
        raise bad_request("The message body must have a Text or an Html part.")
    source: str = params.get("FromEmailAddress") or ""
    source_address = _source(source)
    to, cc, bcc = _destination(params)
    reply_to: list[str] = params.get("ReplyToAddresses") or []
    subject: str = message["Subject"]["Data"]
    text: str | None = body["Text"]["Data"] if "Text" in body else None
    html: str | None = body["Html"]["Data"] if "Html" in body else None
    headers = [("From", source)]
    headers += [
        (name, ", ".join(addresses))
        for name, addresses in (("Reply-To", reply_to), ("To", to), ("Cc", cc))
        if addresses
    ]
    headers += [("Subject", subject), ("MIME-Version", "1.0")]
    attached: list[Params] = message.get("Attachments") or []
    headers.append(("Content-Type", _content_type(text, html, attached=bool(attached))))
    extra: list[Params] = message.get("Headers") or []
    for header in extra:
        if len(header["Name"]) + len(header["Value"]) > _MOST_HEADER:
            raise bad_request(f"Header {header['Name']} is longer than {_MOST_HEADER} characters.")
        headers.append((header["Name"], header["Value"]))
    attachments = [
        {
            "name": one["FileName"],
            "type": one.get("ContentType", "application/octet-stream"),
            "size": len(one["RawContent"]),
        }
        for one in attached
    ]
    return Draft(
        source=source,
        source_address=source_address,
        to=to,
        cc=cc,
        bcc=bcc,
        recipients=[bare_address(address) for address in (*to, *cc, *bcc)],
        reply_to=reply_to,
        subject=subject,
        text=text,
        html=html,
        headers=headers,
        attachments=attachments,
        tags=_tags(params),
        configuration_set=params.get("ConfigurationSetName"),
    )


def _content_type(text: str | None, html: str | None, *, attached: bool) -> str:
    if attached:
        return 'multipart/mixed; boundary="----=_Part_0"'
    if text is not None and html is not None:
        return 'multipart/alternative; boundary="----=_Part_0"'
    return "text/html; charset=UTF-8" if text is None else "text/plain; charset=UTF-8"


def _raw(params: Params, message: Params) -> Draft:
    parsed: EmailMessage = BytesParser(EmailMessage, policy=email.policy.SMTP).parsebytes(
        message["Data"]
    )
    headers = [(name, str(value)) for name, value in parsed.items()]
    source: str = params.get("FromEmailAddress") or str(parsed.get("From", ""))
    source_address = _source(source)
    in_call = _destination(params)
    in_head = [_addresses(parsed, name) for name in ("To", "Cc", "Bcc")]
    to, cc, bcc = in_call if any(in_call) else in_head
    text_part, html_part = parsed.get_body(("plain",)), parsed.get_body(("html",))
    tags = _header_tags(str(parsed.get("X-SES-MESSAGE-TAGS", ""))) | _tags(params)
    named = params.get("ConfigurationSetName") or parsed.get("X-SES-CONFIGURATION-SET")
    attachments = [
        {
            "name": part.get_filename() or "",
            "type": part.get_content_type(),
            "size": len(_payload(part)),
        }
        for part in parsed.iter_attachments()
    ]
    return Draft(
        source=source,
        source_address=source_address,
        to=to,
        cc=cc,
        bcc=bcc,
        recipients=[bare_address(address) for address in (*to, *cc, *bcc)],
        reply_to=params.get("ReplyToAddresses") or _addresses(parsed, "Reply-To"),
        subject=str(parsed.get("Subject", "")),
        text=_text(text_part),
        html=_text(html_part),
        headers=[pair for pair in headers if pair[0].lower() != "bcc"],
        attachments=attachments,
        tags=tags,
        configuration_set=str(named) if named else None,
    )


def _addresses(parsed: EmailMessage, name: str) -> list[str]:
    values = [str(value) for value in parsed.get_all(name, [])]
    return [address for _, address in getaddresses(values) if address]


def _header_tags(value: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in value.split(",") if "=" in pair]
    return {name.strip(): content.strip() for name, _, content in pairs}


def _payload(part: Message) -> bytes:
    payload: object = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text(part: Message | None) -> str | None:
    return None if part is None else _payload(part).decode("utf-8", "replace")
