"""The provider: a scripted SES that keeps its own log, and the events that it owes us."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Outcome,
    Pace,
    Refused,
    Unknown,
)
from mail_service.ports import TAG_HEADER, OutgoingEmail, SendingQuota
from tests.statemachine.auditor import Auditor
from tests.steps import ses_event

NOT_ACCEPTED: dict[str, Outcome] = {
    "lost": Unknown(error_class="connection_lost"),
    "throttled": Deferred(error_class="throttled", pace=Pace.THROTTLED),
    "deferred": Deferred(error_class="busy"),
    "deferred slowly": Deferred(error_class="unknown_refusal", pace=Pace.SLOW, alarm=True),
    "refused": Refused(error_class="rejected"),
    "held account": Held(scope=HoldScope.ACCOUNT, error_class="sending_paused"),
    "held quota": Held(scope=HoldScope.ACCOUNT, error_class="daily_quota"),
    "held sender": Held(scope=HoldScope.SENDER, error_class="sender_not_verified"),
    "held endpoint": Held(scope=HoldScope.ENDPOINT, error_class="connect_timeout"),
    "held configuration set": Held(
        scope=HoldScope.CONFIGURATION_SET, error_class="configuration_set_missing"
    ),
}

CONTRADICTED: dict[str, Outcome] = {
    "accepted, said refused": Refused(error_class="rejected"),
    "accepted, said deferred": Deferred(error_class="busy"),
}
"""What we took for a refusal and was none: no promise reaches that far, but the event must win."""

OUTCOMES = ("accepted", "accepted, no answer", *NOT_ACCEPTED, *CONTRADICTED)


@dataclass(frozen=True)
class Call:
    """One request that the provider accepted."""

    tag: str
    message_id: str
    to: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """One event of the provider, under one SNS id; delivered any number of times, or never."""

    sns_message_id: str
    call: Call
    kind: str
    body: dict[str, Any]
    addresses: tuple[str, ...]
    at: datetime
    by_tag: bool
    stops: bool
    honest: bool = True


@dataclass
class Provider:
    """SES, as seen from outside our tables. The auditor is asked what is committed when a call comes."""

    auditor: Auditor
    outcome: str = "accepted"
    checked: bool = True
    """Whether the worker was not stopped between its last look and the call."""
    contradicted: bool = False
    """Whether an acceptance was ever answered like a refusal."""
    accepted: list[Call] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)
    _ids: Any = field(default_factory=lambda: count(1))

    def send(self, email: OutgoingEmail) -> Outcome:
        """Answer one call as the schedule says, and log it."""
        accepts = self.outcome.startswith("accepted")
        message_id = f"message-{next(self._ids)}" if accepts else None
        self.auditor(
            """
            INSERT INTO seen
            SELECT %s, %s, %s, EXISTS (
                SELECT FROM mail_service.send_attempts WHERE request_tag = %s),
            NOT %s OR NOT EXISTS (
                SELECT FROM mail_service.attempt_recipients c
                JOIN mail_service.email_recipients r ON r.id = c.recipient_id
                JOIN mail_service.suppressions s ON s.address_hash = r.address_hash
                WHERE c.attempt_id = %s::uuid AND s.released_at IS NULL
                  AND s.created_at < mail_service.clock() - interval '1.5 seconds'),
            (SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND state LIKE 'idle in transaction%%'), %s
            """,
            *(email.request_tag, accepts, message_id, email.request_tag, self.checked),
            *(email.request_tag, self.outcome in CONTRADICTED),
        )
        self.contradicted |= self.outcome in CONTRADICTED
        if message_id is None:
            return NOT_ACCEPTED[self.outcome]
        self.accepted.append(Call(email.request_tag, message_id, email.to + email.cc + email.bcc))
        self.tell(self.accepted[-1], "Send", by="tag")
        if self.outcome == "accepted":
            return Accepted(provider_message_id=message_id)
        return CONTRADICTED.get(self.outcome, Unknown(error_class="read_timeout"))

    def quota(self) -> SendingQuota:
        """Give a quota that is never the reason for waiting."""
        return SendingQuota(
            max_per_second=1_000_000,
            max_per_day=None,
            sent_last_day=0,
            sending_enabled=True,
            production_access=True,
        )

    def tell(self, call: Call, kind: str, *, by: str, whom: int = 0, **detail: Any) -> Told:
        """Owe an event about a call, dated now: by tag, by header or by MessageId alone."""
        at: datetime = self.auditor.one("SELECT date_trunc('milliseconds', mail_service.clock())")
        about_one = kind in {"Delivery", "Bounce", "Complaint", "DeliveryDelay"}
        addresses = (call.to[whom % len(call.to)],) if about_one else call.to
        body = ses_event(
            kind,
            tag=call.tag if by == "tag" else None,
            message_id=call.message_id,
            at=at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            recipients=addresses,
            **detail,
        )
        if by == "header":
            body["mail"]["headers"] = [{"name": TAG_HEADER, "value": call.tag}]
        permanent = detail.get("bounceType", "Permanent") == "Permanent"
        personal = detail.get("complaintFeedbackType") not in {"not-spam", "auth-failure"}
        told = Told(
            sns_message_id=self.next_sns_id(),
            call=call,
            kind=kind,
            body=body,
            addresses=addresses,
            at=at,
            by_tag=by != "message id",
            stops=(kind == "Bounce" and permanent) or (kind == "Complaint" and personal),
        )
        self.owe(told)
        return told

    def owe(self, told: Told) -> None:
        """Put an event among those that may be delivered."""
        self.events.append(told)
        for address in told.addresses:
            self.auditor(
                "INSERT INTO told VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                *(told.sns_message_id, told.call.tag, told.kind, address, told.at),
                *(told.by_tag, told.stops, told.honest),
            )

    def next_sns_id(self) -> str:
        """Give an SNS id that was not there before."""
        return f"sns-{next(self._ids)}"
