"""The unsigned fields of what SNS posts to an endpoint."""

import time
import urllib.parse

from mail_service.sandbox.events import ses_time
from mail_service.sandbox.publications import Publication
from mail_service.sandbox.topics import Subscription

Envelope = dict[str, str]

_WORDS = {
    "SubscriptionConfirmation": (
        "You have chosen to subscribe to the topic {topic}.\n"
        "To confirm the subscription, visit the SubscribeURL included in this message."
    ),
    "UnsubscribeConfirmation": (
        "You have chosen to deactivate subscription {subscription}.\n"
        "To cancel this operation and restore the subscription, visit the SubscribeURL included "
        "in this message."
    ),
}


def notification_fields(publication: Publication) -> Envelope:
    """What a notification says to every subscription of its topic alike."""
    fields = {
        "Type": "Notification",
        "MessageId": publication.message_id,
        "TopicArn": publication.topic_arn,
    }
    if publication.subject is not None:
        fields["Subject"] = publication.subject
    return fields | {"Message": publication.message, "Timestamp": publication.timestamp}


def unsubscribe_url(url: str, subscription_arn: str) -> str:
    """The address that ends a subscription when visited."""
    arn = urllib.parse.quote(subscription_arn, safe=":")
    return f"{url}/?Action=Unsubscribe&SubscriptionArn={arn}"


def confirmation_fields(
    url: str, subscription: Subscription, kind: str, message_id: str
) -> Envelope:
    """A SubscriptionConfirmation or UnsubscribeConfirmation with the subscription's token."""
    action = {
        "Action": "ConfirmSubscription",
        "TopicArn": subscription.topic_arn,
        "Token": subscription.token,
    }
    return {
        "Type": kind,
        "MessageId": message_id,
        "Token": subscription.token,
        "TopicArn": subscription.topic_arn,
        "Message": _WORDS[kind].format(topic=subscription.topic_arn, subscription=subscription.arn),
        "SubscribeURL": f"{url}/?{urllib.parse.urlencode(action, safe=':')}",
        "Timestamp": ses_time(time.time()),
    }
