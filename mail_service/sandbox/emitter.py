"""Publishes to topics as SNS does: signs, delivers, repeats, and records every try."""

import json
from collections.abc import Callable
from typing import Any

from mail_service.sandbox.courier import Courier, Posted
from mail_service.sandbox.envelopes import (
    Envelope,
    confirmation_fields,
    notification_fields,
    unsubscribe_url,
)
from mail_service.sandbox.ids import new_uuid
from mail_service.sandbox.knobs import KnobBoard
from mail_service.sandbox.ledger import Ledger
from mail_service.sandbox.publications import Publication
from mail_service.sandbox.schedule import Schedule
from mail_service.sandbox.signing import Signer
from mail_service.sandbox.topics import Subscription, Topics

Report = Callable[[Posted], None]


def _unheard(posted: Posted) -> None:
    """Nobody wants to know; the log of deliveries has it."""
    del posted


class Emitter:
    """Sends signed envelopes to endpoints and keeps the log of deliveries."""

    def __init__(
        self,
        url: str,
        signer: Signer,
        topics: Topics,
        knobs: KnobBoard,
        courier: Courier,
        schedule: Schedule,
        deliveries: Ledger,
    ) -> None:
        self._url = url
        self._signer = signer
        self._topics = topics
        self._knobs = knobs
        self._courier = courier
        self._schedule = schedule
        self._deliveries = deliveries

    def signed(self, fields: Envelope, version: str | None = None) -> Envelope:
        """`fields` with signature, version and certificate address added."""
        version = version or self._topics.signature_version(fields.get("TopicArn", ""))
        return fields | {
            "SignatureVersion": version,
            "Signature": self._signer.signature(fields, version),
            "SigningCertURL": self._url + self._signer.certificate_path,
        }

    def notification(self, publication: Publication, subscription_arn: str) -> Envelope:
        """The signed envelope of a publication for one subscription."""
        signed = self.signed(notification_fields(publication))
        return signed | {"UnsubscribeURL": unsubscribe_url(self._url, subscription_arn)}

    def has_receivers(self, topic_arn: str) -> bool:
        """True when a publication to the topic would reach anybody."""
        return bool(self._topics.receivers(topic_arn))

    def publish(
        self, publication: Publication, *, copy: int = 1, report: Report = _unheard
    ) -> list[Posted]:
        """Deliver to every confirmed subscription now; retries follow in the background.

        `report` hears of every try, the later ones too.
        """
        return [
            self._deliver_notification(publication, subscription, copy, report)
            for subscription in self._topics.receivers(publication.topic_arn)
        ]

    def publish_to(self, endpoint: str, publication: Publication) -> Posted:
        """Deliver to an endpoint that needs no subscription, once and without retries."""
        arn = f"{publication.topic_arn}:{new_uuid()}"
        body = json.dumps(self.notification(publication, arn), indent=2).encode()
        about = _about(publication) | {"subscription_arn": arn, "copy": 1}
        return self._post(endpoint, body, about, _unheard, retries=0)

    def _deliver_notification(
        self, publication: Publication, subscription: Subscription, copy: int, report: Report
    ) -> Posted:
        about = _about(publication) | {"subscription_arn": subscription.arn, "copy": copy}
        if subscription.raw:
            body = publication.message.encode()
            about["raw"] = True
        else:
            body = json.dumps(self.notification(publication, subscription.arn), indent=2).encode()
        retries = self._knobs.now.delivery_retries
        return self._post(subscription.endpoint, body, about, report, retries=retries)

    def confirm(self, subscription: Subscription, kind: str = "SubscriptionConfirmation") -> Posted:
        """Post a signed confirmation with the subscription's token; retries follow."""
        return self._post_confirmation(
            subscription, kind, new_uuid(), self._knobs.now.delivery_retries
        )

    def confirm_once(self, subscription: Subscription, message_id: str) -> Posted:
        """Post one signed SubscriptionConfirmation; the caller decides about the next."""
        return self._post_confirmation(subscription, "SubscriptionConfirmation", message_id, 0)

    def _post_confirmation(
        self, subscription: Subscription, kind: str, message_id: str, retries: int
    ) -> Posted:
        fields = confirmation_fields(self._url, subscription, kind, message_id)
        body = json.dumps(self.signed(fields), indent=2).encode()
        about = {
            "type": kind,
            "message_id": message_id,
            "topic_arn": subscription.topic_arn,
            "subscription_arn": None if kind == "SubscriptionConfirmation" else subscription.arn,
            "copy": 1,
        }
        return self._post(subscription.endpoint, body, about, _unheard, retries=retries)

    def _post(
        self,
        endpoint: str,
        body: bytes,
        about: dict[str, Any],
        report: Report,
        *,
        retries: int,
        attempt: int = 1,
    ) -> Posted:
        knobs = self._knobs.now
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "User-Agent": "Amazon Simple Notification Service Agent",
            "x-amz-sns-message-type": about["type"],
            "x-amz-sns-message-id": about["message_id"],
            "x-amz-sns-topic-arn": about["topic_arn"],
        }
        if about["subscription_arn"]:
            headers["x-amz-sns-subscription-arn"] = about["subscription_arn"]
        if about.get("raw"):
            headers["x-amz-sns-rawdelivery"] = "true"
        posted = self._courier.post(endpoint, body, headers, knobs.delivery_timeout_seconds)
        again = posted.worth_retrying and attempt <= retries
        self._deliveries.append(
            about
            | {
                "endpoint": endpoint,
                "attempt": attempt,
                "status": posted.status,
                "error": posted.error,
                "seconds": round(posted.seconds, 6),
                "will_retry": again,
            }
        )
        report(posted)
        if again:
            self._schedule.run(
                lambda: self._repeat(endpoint, body, about, report, attempt + 1, retries),
                knobs.delivery_retry_seconds,
            )
        return posted

    def _repeat(
        self,
        endpoint: str,
        body: bytes,
        about: dict[str, Any],
        report: Report,
        attempt: int,
        retries: int,
    ) -> None:
        self._post(endpoint, body, about, report, attempt=attempt, retries=retries)


def _about(publication: Publication) -> dict[str, Any]:
    return {
        "type": "Notification",
        "message_id": publication.message_id,
        "topic_arn": publication.topic_arn,
        "event": publication.event,
        "provider_message_id": publication.provider_message_id,
    }
