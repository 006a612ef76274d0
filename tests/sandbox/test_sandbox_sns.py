"""SNS: subscriptions, topics, signatures and the rules of delivery."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID
from sandbox_receiver import Receiver, call, call_json, verify, wait_for

from mail_service.sandbox import Sandbox

Send = Callable[..., str]


def confirmation(receiver: Receiver) -> dict[str, str]:
    return wait_for(lambda: receiver.envelopes("SubscriptionConfirmation"))[-1]


def subscribe(sns: Any, sandbox: Sandbox, receiver: Receiver, **more: Any) -> str:
    return sns.subscribe(
        TopicArn=sandbox.topic_arn, Protocol="http", Endpoint=receiver.url, **more
    )["SubscriptionArn"]


def test_a_subscription_is_pending_until_its_token_comes_back(
    sns: Any, sandbox: Sandbox, receiver: Receiver
) -> None:
    assert subscribe(sns, sandbox, receiver) == "pending confirmation"
    envelope = confirmation(receiver)
    verify(envelope)
    assert envelope["TopicArn"] == sandbox.topic_arn
    assert envelope["SubscribeURL"].startswith(f"{sandbox.url}/?Action=ConfirmSubscription&")
    listed = sns.list_subscriptions_by_topic(TopicArn=sandbox.topic_arn)["Subscriptions"]
    assert [one["SubscriptionArn"] for one in listed] == ["PendingConfirmation"]
    arn = sns.confirm_subscription(
        TopicArn=sandbox.topic_arn, Token=envelope["Token"], AuthenticateOnUnsubscribe="true"
    )["SubscriptionArn"]
    (listed,) = sns.list_subscriptions_by_topic(TopicArn=sandbox.topic_arn)["Subscriptions"]
    assert listed == {
        "SubscriptionArn": arn,
        "Owner": "000000000000",
        "Protocol": "http",
        "Endpoint": receiver.url,
        "TopicArn": sandbox.topic_arn,
    }
    attributes = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert attributes["PendingConfirmation"] == "false"
    assert attributes["ConfirmationWasAuthenticated"] == "true"
    assert attributes["RawMessageDelivery"] == "false"
    assert attributes["Endpoint"] == receiver.url
    counted = sns.get_topic_attributes(TopicArn=sandbox.topic_arn)["Attributes"]
    assert (counted["SubscriptionsConfirmed"], counted["SubscriptionsPending"]) == ("1", "0")


def test_subscribing_twice_finds_the_confirmed_subscription_again(
    sns: Any, sandbox: Sandbox, receiver: Receiver
) -> None:
    pending = subscribe(sns, sandbox, receiver, ReturnSubscriptionArn=True)
    token = confirmation(receiver)["Token"]
    arn = sns.confirm_subscription(TopicArn=sandbox.topic_arn, Token=token)["SubscriptionArn"]
    assert subscribe(sns, sandbox, receiver) == arn == pending


def test_a_wrong_token_is_an_invalid_parameter(
    sns: Any, sandbox: Sandbox, receiver: Receiver
) -> None:
    subscribe(sns, sandbox, receiver)
    with pytest.raises(sns.exceptions.InvalidParameterException) as caught:
        sns.confirm_subscription(TopicArn=sandbox.topic_arn, Token="f" * 224)
    assert caught.value.response["Error"] == {
        "Type": "Sender",
        "Code": "InvalidParameter",
        "Message": "Invalid parameter: Token",
    }


def test_a_person_can_confirm_by_visiting_the_subscribe_url(
    sns: Any, sandbox: Sandbox, receiver: Receiver
) -> None:
    subscribe(sns, sandbox, receiver)
    status, _, body = call(confirmation(receiver)["SubscribeURL"])
    assert status == 200
    assert b"<SubscriptionArn>" in body
    assert sandbox.wait_confirmed()


@pytest.mark.parametrize("authenticate", ["true", "false"])
def test_an_unsigned_unsubscribe_works_only_where_no_signature_was_asked_for(
    authenticate: str, sns: Any, sandbox: Sandbox, receiver: Receiver, send: Send
) -> None:
    subscribe(sns, sandbox, receiver)
    token = confirmation(receiver)["Token"]
    sns.confirm_subscription(
        TopicArn=sandbox.topic_arn, Token=token, AuthenticateOnUnsubscribe=authenticate
    )
    send("ada@example.com")
    wait_for(receiver.envelopes)
    status, _, body = call(receiver.envelopes()[0]["UnsubscribeURL"])
    left = sns.list_subscriptions_by_topic(TopicArn=sandbox.topic_arn)["Subscriptions"]
    if authenticate == "true":
        assert status == 403
        assert b"AuthorizationError" in body
        assert len(left) == 1
    else:
        assert status == 200
        assert left == []


def test_unsubscribing_is_told_and_can_be_taken_back(
    sns: Any, sandbox: Sandbox, receiver: Receiver
) -> None:
    subscribe(sns, sandbox, receiver)
    first = confirmation(receiver)["Token"]
    arn = sns.confirm_subscription(TopicArn=sandbox.topic_arn, Token=first)["SubscriptionArn"]
    sns.unsubscribe(SubscriptionArn=arn)
    (goodbye,) = wait_for(lambda: receiver.envelopes("UnsubscribeConfirmation"))
    verify(goodbye)
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.get_subscription_attributes(SubscriptionArn=arn)
    sns.unsubscribe(SubscriptionArn=arn)
    again = sns.confirm_subscription(TopicArn=sandbox.topic_arn, Token=goodbye["Token"])
    assert again["SubscriptionArn"] == arn


def test_topic_attributes_are_kept_and_checked(sns: Any, sandbox: Sandbox) -> None:
    def version() -> str:
        found = sns.get_topic_attributes(TopicArn=sandbox.topic_arn)["Attributes"]
        return found["SignatureVersion"]

    assert version() == "2"
    sns.set_topic_attributes(
        TopicArn=sandbox.topic_arn, AttributeName="SignatureVersion", AttributeValue="1"
    )
    assert version() == "1"
    for name, value in (("SignatureVersion", "3"), ("Nonsense", "x")):
        with pytest.raises(sns.exceptions.InvalidParameterException):
            sns.set_topic_attributes(
                TopicArn=sandbox.topic_arn, AttributeName=name, AttributeValue=value
            )


def test_topics_endpoints_and_actions_that_cannot_be_are_refused(
    sns: Any, sandbox: Sandbox
) -> None:
    other = "arn:aws:sns:eu-west-1:000000000000:other"
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.get_topic_attributes(TopicArn=other)
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.get_topic_attributes(TopicArn="other")
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.subscribe(TopicArn=sandbox.topic_arn, Protocol="http", Endpoint="https://a.example")
    with pytest.raises(ClientError, match="no email subscriptions"):
        sns.subscribe(TopicArn=sandbox.topic_arn, Protocol="email", Endpoint="a@b.example")
    with pytest.raises(ClientError, match="does not implement the SNS action ListTopics"):
        sns.list_topics()


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "Subject\nwith lines"])
def test_a_signature_can_be_verified_by_aws_own_description(
    version: str, subject: str | None, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(signature_version=version)
    told = sandbox.publish('{"umlaut": "ü \\/"}\n', subject=subject)
    assert told["status"] == 200
    (envelope,) = subscribed.envelopes()
    assert envelope["SignatureVersion"] == version
    assert envelope["MessageId"] == told["message_id"]
    assert ("Subject" in envelope) == (subject is not None)
    certificate = verify(envelope)
    common_name = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    assert common_name == "sns.amazonaws.com"
    with pytest.raises(InvalidSignature):
        verify(envelope | {"Message": envelope["Message"].rstrip("\n")})


def test_the_certificate_is_served_under_an_address_of_the_form_of_sns(sandbox: Sandbox) -> None:
    form = re.escape(sandbox.url) + r"/SimpleNotificationService-[0-9a-f]{32}\.pem"
    assert re.fullmatch(form, sandbox.certificate_url)
    status, _, pem = call(sandbox.certificate_url)
    assert (status, pem) == (200, sandbox.certificate_pem)
    assert x509.load_pem_x509_certificate(pem).public_key().key_size == 2048  # type: ignore[union-attr]


def test_two_sandboxes_do_not_share_a_key(sandbox: Sandbox) -> None:
    with Sandbox() as other:
        assert other.certificate_pem != sandbox.certificate_pem


def test_any_envelope_can_be_signed_for_tests_of_receivers(sandbox: Sandbox) -> None:
    envelope = sandbox.sign({"Message": "x", "TopicArn": "arn:aws:sns:eu-west-1:1:foreign"})
    verify(envelope)
    assert envelope["Type"] == "Notification"
    old = sandbox.sign({"Message": "x", "Timestamp": "2012-01-01T00:00:00.000Z"}, version="1")
    verify(old)
    assert (old["SignatureVersion"], old["Timestamp"]) == ("1", "2012-01-01T00:00:00.000Z")
    with pytest.raises(InvalidSignature):
        verify(envelope | {"Subject": "added"})


def test_a_delivery_has_the_headers_of_sns(send: Send, subscribed: Receiver) -> None:
    send("ada@example.com")
    wait_for(lambda: subscribed.posts)
    headers, _ = subscribed.posts[0]
    envelope = subscribed.envelopes()[0]
    assert headers["content-type"] == "text/plain; charset=UTF-8"
    assert headers["x-amz-sns-message-type"] == "Notification"
    assert headers["x-amz-sns-message-id"] == envelope["MessageId"]
    assert headers["x-amz-sns-topic-arn"] == envelope["TopicArn"]
    assert headers["x-amz-sns-subscription-arn"].startswith(envelope["TopicArn"] + ":")


def test_raw_delivery_sends_the_bare_text_and_says_so(
    sns: Any, sandbox: Sandbox, receiver: Receiver
) -> None:
    subscribe(sns, sandbox, receiver, Attributes={"RawMessageDelivery": "true"})
    token = confirmation(receiver)["Token"]
    sns.confirm_subscription(TopicArn=sandbox.topic_arn, Token=token)
    sandbox.publish("bare")
    headers, body = receiver.posts[-1]
    assert body == b"bare"
    assert headers["x-amz-sns-rawdelivery"] == "true"


@pytest.mark.parametrize("fault", [500, 503, None])
def test_no_answer_and_5xx_are_tried_again_with_the_same_message_id(
    fault: int | None, send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(drop_events=["Delivery"])
    subscribed.statuses = [fault, fault, 200]
    send("ada@example.com")
    wait_for(lambda: len(sandbox.deliveries()) == 3)
    rows = sandbox.deliveries()
    assert [row["status"] for row in rows] == [fault, fault, 200]
    assert [row["attempt"] for row in rows] == [1, 2, 3]
    assert [row["will_retry"] for row in rows] == [True, True, False]
    assert len({envelope["MessageId"] for envelope in subscribed.envelopes()}) == 1
    wait_for(lambda: sandbox.inbox()[0]["events"][0]["state"] == "delivered")


def test_an_endpoint_that_stays_away_gets_three_retries(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(drop_events=["Delivery"])
    subscribed.statuses = [503]
    send("ada@example.com")
    wait_for(lambda: len(sandbox.deliveries()) == 4)
    assert sandbox.deliveries()[-1]["will_retry"] is False
    assert sandbox.inbox()[0]["events"][0]["state"] == "failed"


def test_a_4xx_is_never_tried_again(send: Send, sandbox: Sandbox, subscribed: Receiver) -> None:
    subscribed.statuses = [403, 404]
    send("ada@example.com")
    wait_for(lambda: len(sandbox.deliveries()) == 2)
    assert [row["status"] for row in sandbox.deliveries()] == [403, 404]
    assert not any(row["will_retry"] for row in sandbox.deliveries())


def test_an_endpoint_that_does_not_answer_in_time_is_tried_again(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(delivery_timeout_seconds=0.1, drop_events=["Delivery"])
    subscribed.gate.clear()
    send("ada@example.com")
    wait_for(lambda: sandbox.deliveries())
    subscribed.gate.set()
    wait_for(lambda: sandbox.deliveries()[-1]["status"] == 200)
    assert sandbox.deliveries()[0]["status"] is None
    assert "timed out" in sandbox.deliveries()[0]["error"]


def test_a_stop_does_not_wait_for_an_endpoint_that_hangs(signer: Any, receiver: Receiver) -> None:
    receiver.gate.clear()
    with Sandbox(signer=signer, webhook_url=receiver.url) as sandbox:
        wait_for(lambda: receiver.posts)
        began = time.monotonic()
        assert not sandbox.wait_confirmed(0.01)
    assert time.monotonic() - began < 2


def test_any_text_can_be_published_to_any_topic_and_endpoint(
    sandbox: Sandbox, subscribed: Receiver
) -> None:
    foreign = "arn:aws:sns:eu-west-1:111111111111:foreign"
    assert sandbox.publish("nobody there", topic_arn=foreign)["status"] is None
    told = call_json(
        f"{sandbox.url}/_sandbox/publish",
        {"topic_arn": foreign, "message": "text", "subject": "s", "endpoint": subscribed.url},
    )
    assert told["status"] == 200
    (envelope,) = subscribed.envelopes()
    verify(envelope)
    assert (envelope["TopicArn"], envelope["Subject"]) == (foreign, "s")
    assert call(f"{sandbox.url}/_sandbox/publish", {"message": 3})[0] == 400


def test_an_endpoint_is_subscribed_over_http(sandbox: Sandbox, receiver: Receiver) -> None:
    foreign = "arn:aws:sns:eu-west-1:111111111111:foreign"
    told = call_json(
        f"{sandbox.url}/_sandbox/subscribe", {"endpoint": receiver.url, "topic_arn": foreign}
    )
    assert told["subscription_arn"].startswith(foreign)
    assert confirmation(receiver)["TopicArn"] == foreign
    assert call(f"{sandbox.url}/_sandbox/subscribe", {"endpoint": "ftp://x"})[0] == 400
    assert call(f"{sandbox.url}/_sandbox/subscribe", b"nonsense")[0] == 400
    listed = call_json(f"{sandbox.url}/_sandbox/subscriptions")
    assert listed == {"items": []}
