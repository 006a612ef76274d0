"""What intake asks of a request's fields. Each check notes what was expected under the field's name."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mail_service.domain.address import (
    CONTROL,
    AddressInvalid,
    format_sender,
    normalise,
    split_sender,
)
from mail_service.domain.content import Template
from mail_service.domain.headers import problems as header_problems
from mail_service.errors import InvalidFields
from mail_service.runtime import Runtime
from mail_service.store.database import Tx

FARTHEST_SEND_AT = timedelta(days=366)
_ADDRESS_LIKE = re.compile(r"[^\s@]@[^\s@]|%40", re.IGNORECASE)
_DEDUP_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,198}[\x21-\x7e])?")


def check_reason(reason: str) -> None:
    """Raise InvalidFields unless somebody who decides says why, in a sentence or a few."""
    if not 0 < len(reason.strip()) <= 500:
        raise InvalidFields({"reason": "expected 1 to 500 characters"})


def check_address(rt: Runtime, name: str, text: str, problems: dict[str, str]) -> str | None:
    """Give the address as it goes on the wire, or note what is wrong with it."""
    try:
        return normalise(text, allow_reserved=rt.settings.allow_reserved_domains)
    except AddressInvalid as invalid:
        problems[name] = str(invalid)
        return None


def check_addresses(
    rt: Runtime, field: str, texts: Sequence[str], problems: dict[str, str]
) -> list[str]:
    """Give the addresses in their order; those that are none are noted by their place and left out."""
    checked = (check_address(rt, f"{field}.{i}", text, problems) for i, text in enumerate(texts))
    return [address for address in checked if address is not None]


def check_sender(rt: Runtime, text: str, problems: dict[str, str]) -> str:
    """Give the From value of an allowed sender, or note what is wrong."""
    name, given = split_sender(text)
    if len(text) > 400 or CONTROL.search(text):
        problems["from"] = "expected Name <a@b> or a@b, without control characters"
        return ""
    address = check_address(rt, "from", given, problems)
    if address is None:
        return ""
    lowered = address.lower()
    if not rt.settings.senders & {lowered, lowered.rpartition("@")[2]}:
        problems["from"] = "expected an address or domain of ALLOWED_SENDERS"
    try:
        return format_sender(name, address)
    except AddressInvalid as invalid:
        problems["from"] = str(invalid)
        return ""


def check_dedup_key(key: str, problems: dict[str, str]) -> None:
    """Note what is wrong with a dedup key; an address in it would outlive its erasure."""
    if not _DEDUP_KEY.fullmatch(key):
        problems["dedup_key"] = "expected 1 to 200 printable ASCII characters"
    elif _ADDRESS_LIKE.search(key):
        # The key is kept after the address is erased, and stands in logs.
        problems["dedup_key"] = "expected no email address in the key: use an id of yours"


def check_template(rt: Runtime, field: str, name: str, problems: dict[str, str]) -> Template | None:
    """Give the template of this name, or note which there are."""
    template = rt.templates.get(name)
    if template is None:
        known = ", ".join(sorted(rt.templates.names()))
        problems[field] = f"expected one of: {known}"
    return template


def check_data(template: Template | None, data: dict[str, Any], problems: dict[str, str]) -> None:
    """Note every field of the data that does not fit the template."""
    if template is None:
        return
    try:
        template.check(data)
    except InvalidFields as invalid:
        problems |= invalid.fields


def check_headers(headers: Mapping[str, str], problems: dict[str, str]) -> None:
    """Note every header that can't be set."""
    for name, expected in header_problems(headers):
        problems[f"headers.{name}" if name else "headers"] = expected


def check_times(tx: Tx, *, send_at: datetime | None, not_after: datetime | None) -> None:
    """By the database's clock, like everything about time."""
    if not_after is not None and not_after <= tx.now:
        raise InvalidFields({"not_after": "expected a time to come"})
    if send_at is not None and send_at > tx.now + FARTHEST_SEND_AT:
        raise InvalidFields({"send_at": f"expected at most {FARTHEST_SEND_AT.days} days ahead"})
