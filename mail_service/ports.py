"""What the outside must be able to do for us, named once. ``wiring.py`` says who does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mail_service.domain.events import Envelope
from mail_service.domain.outcomes import Outcome

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
