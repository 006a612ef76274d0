"""What SES tells us afterwards: the kinds of event and the facts they carry.

Times are aware datetimes in UTC. Addresses are match keys (:func:`address.match_key`).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

EXPECTED_WITHIN_SECONDS = 900.0
"""SES publishes a Send event within seconds of taking a mail. An accepted call of which nothing was
heard for a quarter of an hour is unconfirmed."""


class EventKind(StrEnum):
    """The kind of one event, in our spelling. Order and labels equal the enum in the database."""

    SEND = "send"
    DELIVERY = "delivery"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    REJECT = "reject"
    DELIVERY_DELAY = "delivery_delay"
    RENDERING_FAILURE = "rendering_failure"
    OPEN = "open"
    CLICK = "click"
    SUBSCRIPTION = "subscription"
    RECEIVED = "received"
    OTHER = "other"


class EventStatus(StrEnum):
    """How far a stored event was understood."""

    MATCHED = "matched"
    UNMATCHED = "unmatched"
    FOREIGN = "foreign"
    QUARANTINED = "quarantined"
    UNPARSEABLE = "unparseable"


class FactKind(StrEnum):
    """What can be true of a recipient. All may be true at once."""

    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    DELAYED = "delayed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One dated statement about one recipient, or about every recipient of the call.

    ``address`` is None when the statement is about all recipients of the call (Reject, Rendering
    Failure). ``at`` is the provider's time, None where it gave none that can be read. ``type`` and
    ``subtype`` are SES's own words for a bounce (bounceType, bounceSubType) and a complaint
    (complaintFeedbackType, complaintSubType). ``action`` is the DSN action of a bounce entry.
    """

    kind: FactKind
    address: str | None
    at: datetime | None
    type: str | None = None
    subtype: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """One SES event, read. Fields that SES did not give, or gave in a form we can't read, are None."""

    kind: EventKind
    provider_message_id: str | None
    request_tag: str | None
    occurred_at: datetime | None
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """A text that AWS sends on setting things up: kept as foreign, without alarm."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A genuine text that is no SES event of any form we know: kept raw, with an alarm."""

    why: str


Reading = ProviderEvent | Notice | Unreadable
"""What the inner text of a genuine notification can turn out to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A genuine SNS Notification of an allowed topic. ``text`` is its Message, exactly as signed."""

    topic_arn: str
    sns_message_id: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOffer:
    """A genuine SubscriptionConfirmation of an allowed topic. The token is a secret."""

    topic_arn: str
    sns_message_id: str
    at: datetime
    token: str

    def __repr__(self) -> str:
        return f"SubscriptionOffer(topic_arn={self.topic_arn!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeNotice:
    """A genuine UnsubscribeConfirmation of an allowed topic: someone cut our events off."""

    topic_arn: str
    sns_message_id: str
    at: datetime


Envelope = Notification | SubscriptionOffer | UnsubscribeNotice
"""What a genuine SNS request can carry."""
