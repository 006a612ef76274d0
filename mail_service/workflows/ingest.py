"""What SNS brings: verified, stored once, matched where possible; 200 only after the commit.

The envelope is read before any transaction is opened, so that a request that is not genuine costs no
connection and no certificate is fetched inside a transaction.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from mail_service.domain.address import keyed_hash
from mail_service.domain.events import (
    EventKind,
    EventStatus,
    Notice,
    Notification,
    ProviderEvent,
    Reading,
    SubscriptionOffer,
    Unreadable,
    UnsubscribeNotice,
)
from mail_service.domain.facts import KnownFact
from mail_service.domain.ses_json import read_event
from mail_service.errors import EnvelopeRefused, Unavailable
from mail_service.ports import TAG_HEADER, TAG_NAME
from mail_service.runtime import Runtime
from mail_service.store import events, housekeeping, subscriptions
from mail_service.store.database import Tx
from mail_service.store.events import NewEvent, StoredEvent
from mail_service.store.subscriptions import Offer
from mail_service.workflows import journal
from mail_service.workflows.match import match


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
        _count(rt, refused)
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


def _count(rt: Runtime, refused: EnvelopeRefused) -> None:
    journal.stage("webhook.refused", cause=refused.cause, detail=str(refused))
    try:
        with rt.db.transaction() as tx:
            housekeeping.count_rejection(tx, refused.cause)
    except Unavailable:
        # The refusal stands without its count; a forged request must not turn into a retry.
        journal.stage("webhook.refusal_not_counted", cause=refused.cause)


def _store(rt: Runtime, notification: Notification) -> Taken:
    reading = read_event(notification.text, tag_name=TAG_NAME, tag_header=TAG_HEADER)
    event = _event(rt, notification, reading)

    def write(tx: Tx) -> tuple[Taken, EventStatus]:
        if not events.add(tx, event):
            return Taken.DUPLICATE, event.status
        if event.status is not EventStatus.UNMATCHED:
            return Taken.STORED, event.status
        stored = StoredEvent(
            id=event.id,
            kind=event.kind,
            status=event.status,
            provider_message_id=event.provider_message_id,
            request_tag=event.request_tag,
            facts=events.written(event.facts),
        )
        return Taken.STORED, match(rt, tx, stored)

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
    if isinstance(reading, Unreadable) and taken is Taken.STORED:
        journal.alarm("event_unparseable", event_id=event.id, why=reading.why)
    return taken


def _event(rt: Runtime, notification: Notification, reading: Reading) -> NewEvent:
    kind, status = EventKind.OTHER, EventStatus.UNMATCHED
    message_id = tag = None
    occurred_at = notification.at
    facts: tuple[KnownFact, ...] = ()
    match reading:
        case ProviderEvent():
            kind = reading.kind
            if kind is EventKind.RECEIVED:
                status = EventStatus.FOREIGN
            message_id, tag = reading.provider_message_id, reading.request_tag
            occurred_at = reading.occurred_at or notification.at
            facts = tuple(
                KnownFact(
                    kind=fact.kind,
                    address_hash=(
                        keyed_hash(rt.address_key, fact.address)
                        if fact.address is not None
                        else None
                    ),
                    at=fact.at or notification.at,
                    type=fact.type,
                    subtype=fact.subtype,
                    action=fact.action,
                )
                for fact in reading.facts
            )
        case Notice():
            status = EventStatus.FOREIGN
        case Unreadable():
            status = EventStatus.UNPARSEABLE
        case _:
            assert_never(reading)
    return NewEvent(
        id=rt.new_id(),
        topic_arn=notification.topic_arn,
        sns_message_id=notification.sns_message_id,
        kind=kind,
        status=status,
        provider_message_id=message_id,
        request_tag=tag,
        occurred_at=occurred_at,
        facts=facts,
        payload=_storable(notification.text),
    )


def _storable(text: str) -> str:
    """Give the text itself, or as a JSON string where it holds what PostgreSQL can't store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text) if "\0" in text else text


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
