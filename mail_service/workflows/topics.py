"""Our subscription to a topic of SNS: an offer is kept and confirmed, and its end raises an alarm.

The URL in an offer's body plays no part: the API is called with the token, and asked to take unsubscribe
requests from the account's owner only.
"""

from mail_service.domain.events import SubscriptionOffer, UnsubscribeNotice
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store import subscriptions
from mail_service.store.subscriptions import Offer
from mail_service.workflows import journal


def offered(rt: Runtime, offer: SubscriptionOffer) -> None:
    """Keep an offer, and confirm it if we are to; never raises because SNS could not be asked."""
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


def confirm(rt: Runtime, offer: Offer) -> bool:
    """Confirm one stored offer at SNS, and record how it went; the sweep tries again where it failed."""
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


def unsubscribed(rt: Runtime, notice: UnsubscribeNotice) -> None:
    """Keep word that somebody cut our events off, and raise an alarm the first time."""
    with rt.db.transaction() as tx:
        new = subscriptions.add_unsubscribed(
            tx,
            notice_id=rt.new_id(),
            topic_arn=notice.topic_arn,
            sns_message_id=notice.sns_message_id,
        )
    if new:
        journal.alarm("topic_unsubscribed", topic_arn=notice.topic_arn)
