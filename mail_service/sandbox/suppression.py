"""The account's suppression list and its four operations."""

import base64
import binascii
import math
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mail_service.sandbox.addresses import bare_address
from mail_service.sandbox.ses_errors import SesError, bad_request, not_found

_MOST_PER_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Suppressed:
    """One entry: an address, why it is listed, since when, and the mail that caused it."""

    address: str
    reason: str
    at: float
    message_id: str | None = None
    feedback_id: str | None = None

    def summary(self) -> dict[str, Any]:
        """The entry as SES lists it."""
        return {
            "EmailAddress": self.address,
            "Reason": self.reason,
            "LastUpdateTime": math.floor(self.at * 1000) / 1000,
        }


class SuppressionList:
    """Entries by address: exact when managed, without regard to case when a mail is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, Suppressed] = {}
        self._reasons: dict[str, str] = {}

    def put(self, entry: Suppressed) -> None:
        """Add an address or replace its entry."""
        with self._lock:
            self._entries[entry.address] = entry
            self._reasons[entry.address.lower()] = entry.reason

    def matching(self, addresses: list[str]) -> dict[str, str]:
        """The reason for each of `addresses` that is on the list."""
        if not self._reasons:
            return {}
        with self._lock:
            return {
                address: self._reasons[address.lower()]
                for address in addresses
                if address.lower() in self._reasons
            }

    def get(self, address: str) -> Suppressed:
        """The entry of an address, or NotFoundException."""
        with self._lock:
            if address not in self._entries:
                raise _absent(address)
            return self._entries[address]

    def delete(self, address: str) -> None:
        """Remove an address, or NotFoundException."""
        with self._lock:
            if self._entries.pop(address, None) is None:
                raise _absent(address)
            self._reasons = {e.address.lower(): e.reason for e in self._entries.values()}

    def entries(self) -> list[Suppressed]:
        """All entries by address."""
        with self._lock:
            return sorted(self._entries.values(), key=lambda entry: entry.address)


def put_suppressed_destination(known: SuppressionList, params: dict[str, Any]) -> dict[str, Any]:
    """PutSuppressedDestination."""
    address = bare_address(params["EmailAddress"])
    known.put(Suppressed(address, params["Reason"], time.time()))
    return {}


def get_suppressed_destination(known: SuppressionList, params: dict[str, Any]) -> dict[str, Any]:
    """GetSuppressedDestination."""
    entry = known.get(params["EmailAddress"])
    found = entry.summary()
    if entry.message_id is not None:
        found["Attributes"] = {"MessageId": entry.message_id, "FeedbackId": entry.feedback_id}
    return {"SuppressedDestination": found}


def delete_suppressed_destination(known: SuppressionList, params: dict[str, Any]) -> dict[str, Any]:
    """DeleteSuppressedDestination."""
    known.delete(params["EmailAddress"])
    return {}


def list_suppressed_destinations(known: SuppressionList, params: dict[str, Any]) -> dict[str, Any]:
    """ListSuppressedDestinations."""
    size = params.get("PageSize", _MOST_PER_PAGE)
    if not 1 <= size <= _MOST_PER_PAGE:
        raise bad_request(f"PageSize must be between 1 and {_MOST_PER_PAGE}.")
    after = _address_in(params["NextToken"]) if "NextToken" in params else ""
    reasons = params.get("Reasons")
    start, end = _seconds(params.get("StartDate")), _seconds(params.get("EndDate"))
    fitting = [
        entry
        for entry in known.entries()
        if entry.address > after
        and (not reasons or entry.reason in reasons)
        and (start is None or entry.at >= start)
        and (end is None or entry.at <= end)
    ]
    page = fitting[:size]
    answer: dict[str, Any] = {"SuppressedDestinationSummaries": [entry.summary() for entry in page]}
    if len(fitting) > len(page):
        answer["NextToken"] = _token_after(page[-1].address)
    return answer


def _absent(address: str) -> SesError:
    return not_found(f"Email address {address} does not exist on your suppression list.")


def _seconds(value: object) -> float | None:
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def _token_after(address: str) -> str:
    return base64.urlsafe_b64encode(f"after:{address}".encode()).decode()


def _address_in(token: str) -> str:
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeError):
        text = ""
    if not text.startswith("after:"):
        raise SesError(400, "InvalidNextTokenException", "The specified token is not valid.")
    return text.removeprefix("after:")
