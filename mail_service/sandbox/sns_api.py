"""The SNS actions that a receiver of events needs."""

import json
from collections.abc import Callable

from mail_service.sandbox.connection import Request, Response
from mail_service.sandbox.emitter import Emitter
from mail_service.sandbox.events import Identity
from mail_service.sandbox.schedule import Schedule
from mail_service.sandbox.sns_wire import (
    Query,
    SnsError,
    Tree,
    answer,
    entries,
    error_answer,
    invalid_parameter,
    missing,
)
from mail_service.sandbox.topics import Subscription, Topics

_SETTABLE = {
    "DeliveryPolicy",
    "DisplayName",
    "Policy",
    "SignatureVersion",
    "TracingConfig",
}


class SnsApi:
    """Answers SNS calls; confirmations are posted in the background."""

    def __init__(
        self, identity: Identity, topics: Topics, emitter: Emitter, schedule: Schedule
    ) -> None:
        self._identity = identity
        self._topics = topics
        self._emitter = emitter
        self._schedule = schedule
        self._actions: dict[str, Callable[[Query], Tree | None]] = {
            "Subscribe": self._subscribe,
            "ConfirmSubscription": self._confirm_subscription,
            "Unsubscribe": self._unsubscribe,
            "ListSubscriptionsByTopic": self._list_subscriptions_by_topic,
            "GetSubscriptionAttributes": self._get_subscription_attributes,
            "GetTopicAttributes": self._get_topic_attributes,
            "SetTopicAttributes": self._set_topic_attributes,
        }

    def respond(self, request: Request, request_id: str) -> Response:
        """The answer to one call of the query protocol."""
        query = Query.of(request)
        name = query.get("Action")
        try:
            return answer(name, self._actions.get(name, _unknown)(query), request_id)
        except SnsError as error:
            return error_answer(error, request_id)

    def _topic(self, query: Query) -> str:
        arn = query.require("TopicArn")
        if not arn.startswith("arn:aws:sns:") or arn.count(":") != 5:
            raise invalid_parameter("TopicArn")
        if not self._topics.exists(arn):
            raise missing("Topic")
        return arn

    def _subscribe(self, query: Query) -> Tree:
        topic_arn = self._topic(query)
        protocol, endpoint = query.require("Protocol"), query.require("Endpoint")
        if protocol not in {"http", "https"}:
            raise SnsError(501, "NotImplemented", f"The sandbox has no {protocol} subscriptions.")
        if not endpoint.startswith(f"{protocol}://"):
            raise invalid_parameter(f"Endpoint must match the specified protocol: {endpoint}")
        attributes = query.map("Attributes")
        known = self._topics.subscribe(topic_arn, protocol, endpoint, attributes)
        if not known.confirmed:
            self._schedule.run(lambda: self._confirm(known))
        shown = known.confirmed or query.get("ReturnSubscriptionArn").lower() == "true"
        return {"SubscriptionArn": known.arn if shown else "pending confirmation"}

    def _confirm(self, subscription: Subscription) -> None:
        self._emitter.confirm(subscription)

    def _confirm_subscription(self, query: Query) -> Tree:
        authenticated = query.get("AuthenticateOnUnsubscribe").lower() == "true"
        topic_arn, token = self._topic(query), query.require("Token")
        known = self._topics.confirm(
            topic_arn, token, authenticate_on_unsubscribe=authenticated and query.signed
        )
        if known is None:
            raise invalid_parameter("Token")
        return {"SubscriptionArn": known.arn}

    def _unsubscribe(self, query: Query) -> None:
        arn = query.require("SubscriptionArn")
        if arn.count(":") != 6:
            raise invalid_parameter("SubscriptionArn")
        known = self._topics.subscription(arn)
        if known is not None and known.authenticate_on_unsubscribe and not query.signed:
            raise SnsError(403, "AuthorizationError", "Unsubscribing needs a signed call")
        gone = self._topics.unsubscribe(arn)
        # SNS answers the same for a subscription that is gone already.
        if gone is not None and gone.confirmed:
            self._schedule.run(lambda: self._say_goodbye(gone))

    def _say_goodbye(self, subscription: Subscription) -> None:
        self._emitter.confirm(subscription, "UnsubscribeConfirmation")

    def _list_subscriptions_by_topic(self, query: Query) -> Tree:
        members: list[Tree] = [
            {
                "SubscriptionArn": known.arn if known.confirmed else "PendingConfirmation",
                "Owner": self._identity.account_id,
                "Protocol": known.protocol,
                "Endpoint": known.endpoint,
                "TopicArn": known.topic_arn,
            }
            for known in self._topics.subscriptions(self._topic(query))
        ]
        return {"Subscriptions": {"member": members}}

    def _get_subscription_attributes(self, query: Query) -> Tree:
        known = self._topics.subscription(query.require("SubscriptionArn"))
        if known is None:
            raise missing("Subscription")
        authenticated = "true" if known.authenticate_on_unsubscribe else "false"
        attributes = {
            "SubscriptionArn": known.arn,
            "TopicArn": known.topic_arn,
            "Owner": self._identity.account_id,
            "Protocol": known.protocol,
            "Endpoint": known.endpoint,
            "PendingConfirmation": "false" if known.confirmed else "true",
            "ConfirmationWasAuthenticated": authenticated,
            "RawMessageDelivery": "false",
            **known.attributes,
        }
        return {"Attributes": entries(attributes)}

    def _get_topic_attributes(self, query: Query) -> Tree:
        arn = self._topic(query)
        known = self._topics.subscriptions(arn)
        confirmed = sum(1 for one in known if one.confirmed)
        attributes = {
            "TopicArn": arn,
            "Owner": self._identity.account_id,
            "DisplayName": "",
            "Policy": json.dumps(self._policy(arn)),
            "SubscriptionsConfirmed": str(confirmed),
            "SubscriptionsPending": str(len(known) - confirmed),
            "SubscriptionsDeleted": "0",
            **self._topics.attributes(arn),
        }
        return {"Attributes": entries(attributes)}

    def _policy(self, arn: str) -> dict[str, object]:
        statement = {
            "Sid": "ses",
            "Effect": "Allow",
            "Principal": {"Service": "ses.amazonaws.com"},
            "Action": "sns:Publish",
            "Resource": arn,
            "Condition": {"StringEquals": {"AWS:SourceAccount": self._identity.account_id}},
        }
        return {"Version": "2012-10-17", "Statement": [statement]}

    def _set_topic_attributes(self, query: Query) -> None:
        arn, name = self._topic(query), query.require("AttributeName")
        value = query.get("AttributeValue")
        if name not in _SETTABLE:
            raise invalid_parameter("AttributeName")
        if name == "SignatureVersion" and value not in {"1", "2"}:
            raise invalid_parameter("SignatureVersion")
        self._topics.set_attribute(arn, name, value)


def _unknown(query: Query) -> Tree | None:
    name = query.get("Action") or "(none)"
    raise SnsError(501, "NotImplemented", f"The sandbox does not implement the SNS action {name}.")
