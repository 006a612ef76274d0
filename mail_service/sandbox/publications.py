"""Messages published to a topic."""

import time
from dataclasses import dataclass

from mail_service.sandbox.events import ses_time
from mail_service.sandbox.ids import new_uuid


@dataclass(frozen=True, slots=True)
class Publication:
    """One message to a topic. Every copy and every retry keeps its id."""

    topic_arn: str
    message: str
    message_id: str
    timestamp: str
    subject: str | None = None
    event: str | None = None
    provider_message_id: str | None = None

    @classmethod
    def new(
        cls, topic_arn: str, message: str, subject: str | None = None, **about: str
    ) -> "Publication":
        """A publication with a new id and the time of now."""
        now = ses_time(time.time())
        return cls(topic_arn, message, new_uuid(), now, subject, **about)
