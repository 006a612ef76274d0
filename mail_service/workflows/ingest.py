"""What SNS brings: verified, stored once, matched where possible; 200 only after the commit.

The envelope is read before any transaction is opened, so that a request that is not genuine costs no
connection and no certificate is fetched inside a transaction.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
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
from mail_service.store import events, housekeeping, shares, subscriptions
from mail_service.store.database import Tx
from mail_service.store.events import NewEvent, StoredEvent
from mail_service.store.subscriptions import Offer
from mail_service.workflows import journal
from mail_service.workflows.match import attempt_of, match
from mail_service.workflows.understand import storable, understand

HOURLY_BYTES = 16 * 1024 * 1024
"""Payload of events that found no call which is kept from one hour: some four thousand events, and
over RETAIN_UNMATCHED_DAYS at most a few gigabytes. Unreadable texts have a share of their own."""

_REMEDIES = {
    "raw_delivery": "set the attribute RawMessageDelivery of the topic's subscription to false: "
    "without SNS's envelope nothing is signed, so nothing can be believed",
    "signature_version": "set the attribute SignatureVersion of the topic to 2, "
    "or list 1 in SNS_SIGNATURE_VERSIONS",
}
"""Refusals that a setting of ours at AWS may cause, and what to do: no retry brings those events back."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")


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
        _count(rt, headers, refused)
        raise
    match envelope:
        case Notification():
            return _store(rt, envelope)
        case SubscriptionOffer():
            return _offer(rt, envelope)
        case UnsubscribeNotice():
            return _unsubscribed(rt, envelope)
        case _:
            assert_never(envelope)


def _count(rt: Runtime, headers: Mapping[str, str], refused: EnvelopeRefused) -> None:
    journal.stage("webhook.refused", cause=refused.cause, detail=str(refused))
    try:
        with rt.db.transaction() as tx:
            so_far = housekeeping.count_rejection(tx, refused.cause)
    except Unavailable:
        # The refusal stands without its count; a forged request must not turn into a retry.
        journal.stage("webhook.refusal_not_counted", cause=refused.cause)
        return
    remedy = _REMEDIES.get(refused.cause)
    if remedy is not None and so_far == 1:
        # Once an hour: anybody can post such a request, and none of it is worth two alarms.
        journal.alarm(
            f"webhook_{refused.cause}", do=remedy, subscription_arn=_subscription(rt, headers)
        )


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
    )
    stored = StoredEvent(
        id=event.id,
        kind=event.kind,
        status=event.status,
        provider_message_id=event.provider_message_id,
        request_tag=event.request_tag,
        facts=events.written(event.facts),
    )

    def write(tx: Tx) -> tuple[Taken, EventStatus]:
        known = attempt_of(tx, stored)
        new = event if known is not None else _within_its_share(tx, event)
        if new is None or not events.add(tx, new):
            return Taken.DUPLICATE, event.status
        if event.status is not EventStatus.UNMATCHED:
            return Taken.STORED, event.status
        return Taken.STORED, match(rt, tx, stored, known)

    taken, status = rt.db.transact(write)
    journal.stage(
        "event.stored" if taken is Taken.STORED else "event.repeated",
        event_id=event.id,
        sns_message_id=event.sns_message_id,
        kind=event.kind,
        status=status,
        provider_message_id=event.provider_message_id,
        attempt_id=event.request_tag,
    )
    if taken is Taken.STORED:
        if understood.status is EventStatus.UNPARSEABLE:
            journal.alarm("event_unparseable", event_id=event.id, why=understood.why)
        elif understood.notice:
            journal.stage(
                "topic.validated", topic_arn=event.topic_arn, means="AWS's own test arrived here"
            )
    return taken


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


def _offer(rt: Runtime, offer: SubscriptionOffer) -> Taken:
    stored = Offer(id=rt.new_id(), topic_arn=offer.topic_arn, token=offer.token)
    with rt.db.transaction() as tx:
        new = subscriptions.add_offer(
            tx,
            offer_id=stored.id,
            topic_arn=offer.topic_arn,
            sns_message_id=offer.sns_message_id,
            token=offer.token,
        )
    journal.stage("subscription.offered", topic_arn=offer.topic_arn, new=new)
    if new and rt.settings.sns_auto_confirm:
        confirm(rt, stored)
    return Taken.OFFER


def confirm(rt: Runtime, offer: Offer) -> bool:
    """Confirm one stored offer at SNS, and record how it went; the sweep tries again where it failed.

    The URL in the request's body plays no part: the API is called with the token, and asked to take
    unsubscribe requests from the account's owner only.
    """
    try:
        subscription_arn = rt.confirm_subscription(offer.topic_arn, offer.token)
    except Unavailable as fault:
        journal.alarm("subscription_not_confirmed", topic_arn=offer.topic_arn, why=str(fault))
        with rt.db.transaction() as tx:
            subscriptions.not_confirmed(tx, offer.id, str(fault)[:200])
        return False
    with rt.db.transaction() as tx:
        subscriptions.confirmed(tx, offer.id, subscription_arn)
    journal.stage("subscription.confirmed", topic_arn=offer.topic_arn)
    return True


def _unsubscribed(rt: Runtime, notice: UnsubscribeNotice) -> Taken:
    with rt.db.transaction() as tx:
        new = subscriptions.add_unsubscribed(
            tx,
            notice_id=rt.new_id(),
            topic_arn=notice.topic_arn,
            sns_message_id=notice.sns_message_id,
        )
    if new:
        journal.alarm("topic_unsubscribed", topic_arn=notice.topic_arn)
    return Taken.UNSUBSCRIBED
