"""Rows as JSON and as words: times, durations and the parts of an email, in one form everywhere."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from mail_service.store.views import EmailView

# Of use only to put the parts of an email together.
_INTERNAL = frozenset({"email_id", "in_call", "in_accepted_call"})


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Give a row, or anything made of rows, as what JSON knows; times are RFC 3339 in UTC."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in _INTERNAL
        }
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {
            str(key): plain(inner) for key, inner in cast("Mapping[object, object]", value).items()
        }
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in cast("list[object]", value)]
    return value


def email(view: EmailView) -> dict[str, Any]:
    """Give an email in the form in which the API gives it."""
    recipients = [{**plain(r), "status": r.status.value} for r in view.recipients]
    return {
        **plain(view.email),
        "recipients": recipients,
        "attempts": plain(view.attempts),
        "events": plain(view.events),
        "decisions": plain(view.decisions),
    }


def moment(at: datetime | None) -> str:
    """Give a time to the second, in UTC; empty when there is none."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at is not None else ""


def duration(seconds: float | None) -> str:
    """Give a length of time in its largest unit, such as ``4.2 s`` or ``3 h``."""
    if seconds is None:
        return "never"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return ""
