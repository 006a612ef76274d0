"""What SNS brings: verified, stored once, matched where possible; 200 only after the commit.

The envelope is read before any transaction is opened, so that a request that is not genuine costs no
connection and no certificate is fetched inside a transaction.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from mail_service.domain.events import (
    EventStatus,
    Notification,
    SubscriptionOffer,
    UnsubscribeNotice,
)
from mail_service.errors import EnvelopeRefused, Unavailable
from mail_service.runtime import Runtime
from mail_service.store import events, housekeeping, shares
from mail_service.store.database import Tx
from mail_service.store.events import NewEvent
from mail_service.store.matching import Known
from mail_service.workflows import journal, topics
from mail_service.workflows.match import call_of, have_effect, match, stands
from mail_service.workflows.understand import named, storable, understand

HOURLY_BYTES = 16 * 1024 * 1024
"""Payload of events that found no call which is kept from one hour: some four thousand events, and
over RETAIN_UNMATCHED_DAYS at most a few gigabytes. Unreadable texts have a share of their own."""

PAUSES = (0.02, 0.1)
"""Seconds between tries where somebody holds the email's row: a finalise is over in a few milliseconds."""

_REMEDIES = {
    "raw_delivery": "set the attribute RawMessageDelivery of the topic's subscription to false: "
    "without SNS's envelope nothing is signed, so nothing can be believed",
    "signature_version": "set the attribute SignatureVersion of the topic to 2, "
    "or list 1 in SNS_SIGNATURE_VERSIONS",
    "no_certificate": "see that this process may call the host sns.REGION.amazonaws.com by https; "
    "if it may, somebody posts requests that name certificates which are not there",
}
"""Refusals that a setting of ours may cause, and what to do about it."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")


class EmailHeld(Unavailable):
    """Somebody holds the row of the email that an event is about; nothing of the event is stored."""


class Taken(StrEnum):
    """What was done with a genuine request. All of them are answered 200."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    OFFER = "offer"
    UNSUBSCRIBED = "unsubscribed"


def accept(rt: Runtime, headers: Mapping[str, str], body: bytes) -> Taken:
    """Take one webhook request; header names are lower-case. When this returns, it is durable.

    Raises MalformedEnvelope or NotGenuine (counted, nothing else written) and Unavailable.
    """
    try:
        envelope = rt.read_envelope(headers, body)
    except EnvelopeRefused as refused:
        _count(rt, headers, refused.cause, refused)
        raise
    except Unavailable as fault:
        # A fault of ours, or somebody made the certificate's name up: nobody can tell, so it is counted.
        _count(rt, headers, "no_certificate", fault)
        raise
    match envelope:
        case Notification():
            return _store(rt, envelope)
        case SubscriptionOffer():
            topics.offered(rt, envelope)
            return Taken.OFFER
        case UnsubscribeNotice():
            topics.unsubscribed(rt, envelope)
            return Taken.UNSUBSCRIBED
        case _:
            assert_never(envelope)


def _count(rt: Runtime, headers: Mapping[str, str], cause: str, why: Exception) -> None:
    journal.stage("webhook.refused", cause=cause, detail=str(why))
    try:
        with rt.db.transaction() as tx:
            so_far = housekeeping.count_rejection(tx, cause)
    except Unavailable:
        # The refusal stands without its count; a forged request must not turn into a retry.
        journal.stage("webhook.refusal_not_counted", cause=cause)
        return
    remedy = _REMEDIES.get(cause)
    if remedy is not None and so_far == 1:
        # Once an hour: anybody can post such a request, and none of it is worth two alarms.
        journal.alarm(f"webhook_{cause}", do=remedy, subscription_arn=_subscription(rt, headers))


def _subscription(rt: Runtime, headers: Mapping[str, str]) -> str | None:
    """Give the subscription that a request says it is of, if it has the form of one of our topics'."""
    told = headers.get("x-amz-sns-subscription-arn", "")
    topic_arn, _, name = told.rpartition(":")
    return told if topic_arn in rt.settings.sns_topic_arns and _NAME.fullmatch(name) else None


def _store(rt: Runtime, notification: Notification) -> Taken:
    understood = understand(rt, notification.text, at=notification.at)
    event = NewEvent(
        id=rt.new_id(),
        topic_arn=notification.topic_arn,
        sns_message_id=notification.sns_message_id,
        kind=understood.kind,
        status=understood.status,
        provider_message_id=understood.provider_message_id,
        request_tag=understood.request_tag,
        occurred_at=understood.occurred_at,
        facts=understood.facts,
        payload=storable(notification.text),
        named=named(rt, notification.text, understood.facts),
    )
    stored = _patiently(rt, event)
    known = stored.known if stored is not None else None
    journal.stage(
        "event.repeated" if stored is None else "event.stored",
        event_id=event.id,
        sns_message_id=event.sns_message_id,
        kind=event.kind,
        status=stored.status if stored is not None else None,
        provider_message_id=event.provider_message_id,
        email_id=known.email_id if known is not None else None,
        attempt_id=known.id if known is not None else event.request_tag,
    )
    if stored is None:
        return Taken.DUPLICATE
    if understood.status is EventStatus.UNPARSEABLE:
        journal.alarm("event_unparseable", event_id=event.id, why=understood.why)
    elif understood.notice:
        journal.stage(
            "topic.validated", topic_arn=event.topic_arn, means="AWS's own test arrived here"
        )
    return Taken.STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """How far a new event was understood, and the call of ours that it is about."""

    status: EventStatus
    known: Known | None


def _patiently(rt: Runtime, event: NewEvent) -> _Stored | None:
    """Store an event and let it have its effect; None for a twin.

    Where somebody holds its email's row, it is tried again after pauses in which no connection is
    held, and then refused with nothing written: SNS brings it again.
    """
    for pause in PAUSES:
        try:
            return rt.db.transact(lambda tx: _write(rt, tx, event))
        except EmailHeld:
            time.sleep(pause)
    return rt.db.transact(lambda tx: _write(rt, tx, event))


def _write(rt: Runtime, tx: Tx, event: NewEvent) -> _Stored | None:
    known = None if event.status is not EventStatus.UNMATCHED else call_of(tx, event)
    if known is None:
        fitting = _within_its_share(tx, event)
        if fitting is None:
            return None
        event = fitting
    elif stands(event, known):
        event = replace(event, status=EventStatus.MATCHED, attempt_id=known.id)
    received_at = events.add(tx, event)
    if received_at is None:
        return None
    stored, status = event.stored(received_at), event.status
    if event.attempt_id is not None:
        have_effect(rt, tx, stored, event.attempt_id)
    elif status is EventStatus.UNMATCHED:
        status = match(rt, tx, stored, known)
        if known is not None and status is EventStatus.UNMATCHED:
            # What it says of a known email must stand when we say that we have it.
            raise EmailHeld("somebody holds the row of the email that the event is about")
    return _Stored(status=status, known=known)


def _within_its_share(tx: Tx, event: NewEvent) -> NewEvent | None:
    """Give the event as it is to be stored though no call of ours is known for it; None for a twin.

    Over the hour's share its payload is left out: the row alone can still be matched if it is ours
    and came early, and another application's flood can't fill the database.
    """
    if events.known(tx, event.topic_arn, event.sns_message_id):
        return None
    pool = "unreadable" if event.status is EventStatus.UNPARSEABLE else "unattached"
    size = len((event.payload or "").encode())
    share = shares.take_share(tx, pool, size=size, hourly=HOURLY_BYTES)
    if share.fits:
        return event
    if share.dropped == 1:
        journal.alarm_once(tx, "event_payloads_dropped", pool=pool, topic_arn=event.topic_arn)
    return replace(event, payload=None)
