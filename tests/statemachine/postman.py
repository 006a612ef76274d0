"""What SNS brings: events in any order and number, and requests that are not what they seem."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from mail_service.domain.events import Notification
from mail_service.errors import EnvelopeRefused
from mail_service.workflows import ingest
from tests.statemachine.auditor import require
from tests.statemachine.provider import Told
from tests.steps import TOPIC, ses_event

if TYPE_CHECKING:
    from tests.statemachine.world import World

KINDS: Sequence[tuple[str, dict[str, Any]]] = (
    ("Send", {}),
    ("Delivery", {}),
    ("Bounce", {}),
    ("Bounce", {"bounceType": "Transient"}),
    ("Bounce", {"bounceType": "Undetermined"}),
    ("Complaint", {}),
    ("Complaint", {"complaintFeedbackType": "abuse"}),
    ("Complaint", {"complaintFeedbackType": "not-spam"}),
    ("DeliveryDelay", {}),
    ("Reject", {}),
    ("Rendering Failure", {}),
    ("Open", {}),
)


class Postman:
    """Delivers the provider's events, and other people's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._serial = 0

    def happen(self, pick: int, kind: int, *, by: str, whom: int) -> Told | None:
        """Let something become of an accepted mail; the event is owed from now on."""
        calls = self._world.provider.accepted
        if not calls:
            return None
        name, detail = KINDS[kind]
        return self._world.provider.tell(calls[pick % len(calls)], name, by=by, whom=whom, **detail)

    def deliver(self, pick: int) -> None:
        """Deliver an event of the provider, be it the first time or not."""
        events = self._world.provider.events
        if events:
            self.bring(events[-1 - pick % len(events)])

    def bring(self, told: Told) -> bool:
        """Deliver this event; says whether it was answered 2xx."""
        taken = self._bring(told.sns_message_id, told.body) is not None
        if taken:
            self._world.auditor(
                "UPDATE told SET taken = true WHERE sns_message_id = %s", told.sns_message_id
            )
        return taken

    def _bring(self, sns_message_id: str, body: dict[str, Any]) -> ingest.Taken | None:
        notification = Notification(
            topic_arn=TOPIC,
            sns_message_id=sns_message_id,
            at=self._world.now(),
            text=json.dumps(body),
        )

        def read(headers: Mapping[str, str], body: bytes) -> Notification:
            return notification

        rt = replace(self._world.rt, read_envelope=read)
        return self._world.try_to(lambda: ingest.accept(rt, {}, b""))

    def foreign(self, pick: int, *, tagged: bool) -> None:
        """Deliver an event about another application's mail."""
        self._serial += 1
        tag = str(UUID(int=2**100 + self._serial)) if tagged else None
        body = ses_event(
            "Bounce", tag=tag, message_id=f"foreign-{pick}", recipients=("ada@example.com",)
        )
        self._bring(f"foreign-{self._serial}", body)

    def disagree(self, pick: int, other: int) -> None:
        """Deliver an event whose tag and MessageId are of two calls, one of them saved as ours."""
        calls = self._world.provider.accepted
        saved = {
            row["provider_message_id"]
            for row in self._world.auditor(
                "SELECT provider_message_id FROM mail_service.send_attempts "
                "WHERE provider_message_id IS NOT NULL"
            )
        }
        if len(calls) < 2:
            return
        one, two = calls[pick % len(calls)], calls[other % len(calls)]
        if one == two or not {one.message_id, two.message_id} & saved:
            return
        told = Told(
            sns_message_id=self._world.provider.next_sns_id(),
            call=one,
            kind="Bounce",
            body=ses_event("Bounce", tag=one.tag, message_id=two.message_id, recipients=two.to),
            addresses=one.to,
            at=self._world.now(),
            by_tag=True,
            stops=False,
            honest=False,
        )
        self._world.provider.owe(told)
        self.bring(told)

    def forged(self, pick: int) -> None:
        """Deliver what is not genuine: no table but the counter may change (S13)."""
        events = self._world.provider.events
        tag = events[pick % len(events)].call.tag if events else str(UUID(int=1))
        body = {
            "Type": "Notification",
            "MessageId": "forged",
            "TopicArn": TOPIC if pick % 2 else TOPIC + "-other",
            "Message": json.dumps(ses_event("Complaint", tag=tag, message_id="message-1")),
            "Timestamp": "2026-11-29T10:00:00.000Z",
            "SignatureVersion": "2",
            "Signature": "AAAA",
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com.example.com/x.pem",
        }
        before = self._world.auditor.dump()
        try:
            self._world.try_to(lambda: ingest.accept(self._world.rt, {}, json.dumps(body).encode()))
        except EnvelopeRefused:
            require("S13", self._world.auditor.dump() != before, "a forged request changed a table")
        else:
            require("S13", body, "a forged request was believed")
