"""What the outside must be able to do for us, named once. ``wiring.py`` says who does it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mail_service.domain.events import Envelope
from mail_service.domain.outcomes import Outcome
from mail_service.domain.suppression import Listed, SuppressionReason

TAG_NAME = "mail_service_attempt"
"""Name of the EmailTags entry that carries an attempt's tag; SES allows letters, digits, _ and -."""

TAG_HEADER = "X-Mail-Service-Attempt"
"""The same tag as a header: identity notifications carry headers but no tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingEmail:
    """One SES call, complete. ``repr`` leaves out whatever is about a person."""

    request_tag: str
    sender: str
    subject: str = field(repr=False)
    to: tuple[str, ...] = field(repr=False)
    cc: tuple[str, ...] = field(default=(), repr=False)
    bcc: tuple[str, ...] = field(default=(), repr=False)
    reply_to: tuple[str, ...] = field(default=(), repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    text: str | None = field(default=None, repr=False)
    html: str | None = field(default=None, repr=False)


class Mailer(Protocol):
    """Hands one email to SES, once."""

    def send(self, email: OutgoingEmail) -> Outcome:
        """Make one call and say what it taught us. Never raises, never calls twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingQuota:
    """What SES lets this account send; counted in recipients."""

    max_per_second: float
    max_per_day: float | None  # None: no limit
    sent_last_day: float
    sending_enabled: bool
    production_access: bool  # False: the sandbox, which reaches verified recipients only


class ReadQuota(Protocol):
    """Asks SES how much it will take."""

    def __call__(self) -> SendingQuota:
        """Give the account's quota. Raises Unavailable when SES does not say."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """Some entries of SES's suppression list. ``unreadable`` counts those that made no sense."""

    entries: tuple[Listed, ...]
    unreadable: int
    next: str | None  # None: this was the last page


class SesList(Protocol):
    """SES's own suppression list: one call each, none repeated.

    Every method raises Throttled when SES asks to slow down, and Unavailable for whatever else went
    wrong; its text is fit for an operator and holds no address.
    """

    def page(self, after: str | None, since: datetime | None) -> ListPage:
        """Give the entries after a place, of those that SES changed at ``since`` or later."""
        ...

    def find(self, address: str) -> Listed | None:
        """Give the entry of exactly this spelling, or None."""
        ...

    def put(self, address: str, reason: SuppressionReason) -> None:
        """List an address, or list it anew."""
        ...

    def delete(self, address: str) -> bool:
        """Take an address off the list; False when it was not there."""
        ...


class ReadEnvelope(Protocol):
    """Turns an SNS request into something to act on."""

    def __call__(self, headers: Mapping[str, str], body: bytes) -> Envelope:
        """Give the genuine envelope; header names are lower-case.

        Raises MalformedEnvelope, NotGenuine, or Unavailable where the fault is ours. Opens no
        transaction and touches no table.
        """
        ...


class ConfirmSubscription(Protocol):
    """Answers SNS's question whether we want a topic's messages."""

    def __call__(self, topic_arn: str, token: str) -> str:
        """Give the subscription's ARN. Raises Unavailable when SNS did not confirm."""
        ...


class FetchCertificate(Protocol):
    """Fetches a signing certificate from an address that was already found good."""

    def __call__(self, address: str) -> bytes:
        """Give the PEM bytes. Raises Unavailable for every fault of transport."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What SNS could not deliver to us, as its dead-letter queue holds it. Nothing of it is believed yet."""

    id: str
    receipt: str = field(repr=False)
    body: bytes = field(repr=False)


class DeadLetters(Protocol):
    """A dead-letter queue of SNS. All of it raises Unavailable where the queue does not answer."""

    def waiting(self) -> int:
        """Give about how many letters wait."""
        ...

    def receive(self) -> Sequence[DeadLetter]:
        """Take up to ten letters, hidden from others for a while; none when the queue is empty."""
        ...

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete letters. One that stays all the same is seen again, and known then."""
        ...

    def give_back(self, receipts: Sequence[str]) -> None:
        """Let letters be seen by others at once."""
        ...
