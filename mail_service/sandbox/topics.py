"""The topics and subscriptions that SNS knows."""

import secrets
import threading
from dataclasses import dataclass, field

from mail_service.sandbox.ids import new_uuid


@dataclass(slots=True)
class Subscription:
    """One endpoint of a topic; it gets messages once it is confirmed."""

    arn: str
    topic_arn: str
    protocol: str
    endpoint: str
    attributes: dict[str, str]
    token: str
    confirmed: bool = False
    authenticate_on_unsubscribe: bool = False

    @property
    def raw(self) -> bool:
        """True when messages go out without an envelope, and so without a signature."""
        return self.attributes.get("RawMessageDelivery", "false").lower() == "true"


@dataclass(slots=True)
class Topic:
    """A topic with the attributes that were set on it."""

    arn: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    subscriptions: dict[str, Subscription] = field(default_factory=dict[str, Subscription])


class Topics:
    """All topics; every method is safe to call from any thread."""

    def __init__(self, signature_version: str) -> None:
        self._lock = threading.RLock()
        self._topics: dict[str, Topic] = {}
        self._unsubscribed: dict[str, Subscription] = {}
        self._signature_version = signature_version

    def ensure(self, arn: str) -> None:
        """Create the topic unless it exists."""
        with self._lock:
            if arn not in self._topics:
                self._topics[arn] = Topic(arn, {"SignatureVersion": self._signature_version})

    def exists(self, arn: str) -> bool:
        """True when the topic was created."""
        return arn in self._topics

    def attributes(self, arn: str) -> dict[str, str]:
        """The attributes that were set on an existing topic."""
        with self._lock:
            return dict(self._topics[arn].attributes)

    def set_attribute(self, arn: str, name: str, value: str) -> None:
        """Set one attribute of an existing topic."""
        with self._lock:
            self._topics[arn].attributes[name] = value

    def sign_with(self, version: str) -> None:
        """Use this signature version for every topic, present and future."""
        with self._lock:
            if version == self._signature_version:
                return
            self._signature_version = version
            for topic in self._topics.values():
                topic.attributes["SignatureVersion"] = version

    def signature_version(self, arn: str) -> str:
        """The signature version of a topic, or the default where there is no such topic."""
        with self._lock:
            topic = self._topics.get(arn)
            attributes = topic.attributes if topic else {}
            return attributes.get("SignatureVersion", self._signature_version)

    def subscribe(
        self, topic_arn: str, protocol: str, endpoint: str, attributes: dict[str, str]
    ) -> Subscription:
        """The subscription of this endpoint, an existing one when there is one already."""
        with self._lock:
            self.ensure(topic_arn)
            subscriptions = self._topics[topic_arn].subscriptions
            for known in subscriptions.values():
                if (known.protocol, known.endpoint) == (protocol, endpoint):
                    return known
            arn = f"{topic_arn}:{new_uuid()}"
            token = secrets.token_hex(112)
            made = Subscription(arn, topic_arn, protocol, endpoint, attributes, token)
            subscriptions[arn] = made
            return made

    def confirm(
        self, topic_arn: str, token: str, *, authenticate_on_unsubscribe: bool
    ) -> Subscription | None:
        """Confirm the subscription that a token was made for; None for a wrong token."""
        with self._lock:
            topic = self._topics[topic_arn]
            for known in topic.subscriptions.values():
                if secrets.compare_digest(known.token.encode(), token.encode()):
                    if not known.confirmed:
                        known.authenticate_on_unsubscribe = authenticate_on_unsubscribe
                    known.confirmed = True
                    return known
            gone = self._unsubscribed.pop(token, None)
            if gone is not None and gone.topic_arn == topic_arn:
                topic.subscriptions[gone.arn] = gone
            return gone

    def unsubscribe(self, arn: str) -> Subscription | None:
        """Remove a subscription; its token stays good for taking that back. None if unknown."""
        with self._lock:
            topic = self._topics.get(arn.rpartition(":")[0])
            gone = topic.subscriptions.pop(arn, None) if topic else None
            if gone is not None:
                gone.token = secrets.token_hex(112)
                self._unsubscribed[gone.token] = gone
            return gone

    def subscription(self, arn: str) -> Subscription | None:
        """The subscription with this ARN, if any."""
        with self._lock:
            topic = self._topics.get(arn.rpartition(":")[0])
            return topic.subscriptions.get(arn) if topic else None

    def subscriptions(self, topic_arn: str) -> list[Subscription]:
        """All subscriptions of a topic, pending ones too; none for an unknown topic."""
        with self._lock:
            topic = self._topics.get(topic_arn)
            return list(topic.subscriptions.values()) if topic else []

    def receivers(self, topic_arn: str) -> list[Subscription]:
        """The confirmed subscriptions of a topic."""
        return [known for known in self.subscriptions(topic_arn) if known.confirmed]
