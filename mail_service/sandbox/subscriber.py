"""Subscribes endpoints on the sandbox's own account, without a call to SNS."""

import threading
import time
from typing import Any

from mail_service.sandbox.emitter import Emitter
from mail_service.sandbox.events import Identity
from mail_service.sandbox.ids import new_uuid
from mail_service.sandbox.schedule import Schedule
from mail_service.sandbox.topics import Subscription, Topics

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0


class Subscriber:
    """Asks endpoints to confirm until they answer, because they may come up later."""

    def __init__(self, topics: Topics, emitter: Emitter, schedule: Schedule) -> None:
        self._topics = topics
        self._emitter = emitter
        self._schedule = schedule
        self._closed = threading.Event()

    def subscribe(self, endpoint: str, topic_arn: str, *, confirm: bool) -> str:
        """Subscribe an endpoint to a topic, which is created if need be; return the ARN."""
        protocol = endpoint.partition("://")[0]
        if protocol not in {"http", "https"}:
            raise ValueError(f"{endpoint!r} is no http or https address")
        Identity.of_topic(topic_arn)
        subscription = self._topics.subscribe(topic_arn, protocol, endpoint, {})
        if confirm:
            message_id = new_uuid()
            self._schedule.run(lambda: self._ask(subscription, message_id, _FIRST_PAUSE_SECONDS))
        else:
            subscription.confirmed = True
        return subscription.arn

    def _ask(self, subscription: Subscription, message_id: str, pause: float) -> None:
        posted = self._emitter.confirm_once(subscription, message_id)
        if posted.delivered or subscription.confirmed:
            return
        longer = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        self._schedule.run(lambda: self._ask(subscription, message_id, longer), pause)

    def known(self, topic_arn: str) -> list[dict[str, Any]]:
        """The subscriptions of a topic, pending ones too."""
        return [
            {"arn": one.arn, "endpoint": one.endpoint, "confirmed": one.confirmed}
            for one in self._topics.subscriptions(topic_arn)
        ]

    def wait_confirmed(self, topic_arn: str, seconds: float) -> bool:
        """Wait until a topic has subscriptions and all are confirmed; False if it takes longer."""
        deadline = time.monotonic() + seconds
        while True:
            known = self._topics.subscriptions(topic_arn)
            if known and all(one.confirmed for one in known):
                return True
            if time.monotonic() >= deadline or self._closed.wait(0.01):
                return False

    def close(self) -> None:
        """End every wait."""
        self._closed.set()
