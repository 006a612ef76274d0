"""What SES has to tell about a mail."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mail_service.sandbox.knobs import EventKind

_IDENTITY_KINDS = ("Delivery", "Bounce", "Complaint")
_OUTCOMES: dict[EventKind, str] = {
    "Send": "accepted",
    "Delivery": "delivered",
    "Bounce": "bounced",
    "Complaint": "complained",
    "Reject": "rejected",
    "DeliveryDelay": "delayed",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its kind, whom it is about, and the object that tells the details."""

    kind: EventKind
    recipients: list[str]
    details: Mapping[str, Any]

    @property
    def outcome(self) -> str:
        """One word for what the event says of the mail."""
        if self.kind == "Bounce" and self.details["bounceType"] == "Transient":
            return "delayed"
        return _OUTCOMES[self.kind]


@dataclass(frozen=True, slots=True)
class Identity:
    """The AWS account and region that the sandbox plays."""

    account_id: str
    region: str

    @classmethod
    def of_topic(cls, topic_arn: str) -> "Identity":
        """The account and region that own a topic."""
        parts = topic_arn.split(":")
        if len(parts) != 6 or parts[:3] != ["arn", "aws", "sns"]:
            raise ValueError(f"{topic_arn!r} is no ARN of a topic: arn:aws:sns:REGION:ACCOUNT:NAME")
        return cls(parts[4], parts[3])


def ses_time(seconds: float) -> str:
    """A time as SES and SNS write it: UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def publishable(kind: EventKind, *, configuration_set: str | None) -> bool:
    """Without a configuration set only the identity's notifications exist."""
    return configuration_set is not None or kind in _IDENTITY_KINDS
