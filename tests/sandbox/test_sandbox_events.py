"""The shape of published events, and what a confirmed endpoint receives."""

from collections.abc import Callable
from typing import Any

from sandbox_receiver import Receiver, simple_mail, wait_for

from mail_service.sandbox import Sandbox

Send = Callable[..., str]


def test_an_event_of_a_configuration_set_tells_everything_about_its_mail(
    ses: Any, sandbox: Sandbox, subscribed: Receiver
) -> None:
    params = simple_mail("ada@example.com")
    params["Destination"] |= {"CcAddresses": ["b@example.com"], "BccAddresses": ["c@example.com"]}
    params["EmailTags"].append({"Name": "team", "Value": "blue"})
    message_id = ses.send_email(**params)["MessageId"]
    wait_for(lambda: len(subscribed.posts) == 4)
    send, delivery = subscribed.events()[:2]
    assert send["eventType"] == "Send"
    assert send["send"] == {}
    mail = send["mail"]
    assert mail["messageId"] == message_id
    assert mail["source"] == "App <hello@example.com>"
    assert mail["sourceArn"] == "arn:aws:ses:eu-west-1:000000000000:identity/example.com"
    assert mail["sendingAccountId"] == "000000000000"
    assert mail["destination"] == ["ada@example.com", "b@example.com", "c@example.com"]
    assert mail["headersTruncated"] is False
    assert {"name": "X-Request-Tag", "value": "t-1"} in mail["headers"]
    assert mail["commonHeaders"] == {
        "from": ["App <hello@example.com>"],
        "to": ["ada@example.com"],
        "cc": ["b@example.com"],
        "messageId": message_id,
        "subject": "Hello",
    }
    assert mail["tags"]["request_tag"] == ["t-1"]
    assert mail["tags"]["team"] == ["blue"]
    assert mail["tags"]["ses:configuration-set"] == ["transactional"]
    assert mail["tags"]["ses:from-domain"] == ["example.com"]
    assert mail["tags"]["ses:source-ip"] == ["127.0.0.1"]
    assert mail["tags"]["ses:caller-identity"]
    assert delivery["delivery"]["recipients"] == ["ada@example.com"]
    assert mail["timestamp"] <= delivery["delivery"]["timestamp"]
    assert subscribed.envelopes()[0]["Subject"] == "Amazon SES Email Event Notification"
    assert subscribed.envelopes()[0]["Message"].endswith("}\n")


def test_without_a_configuration_set_only_the_identitys_notifications_come(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    for name in ("success", "bounce", "complaint", "virus", "delayed"):
        send(f"{name}@simulator.amazonses.com", ConfigurationSetName=None)
    wait_for(lambda: len(subscribed.posts) == 5)
    bodies = subscribed.events()
    assert sorted(one["notificationType"] for one in bodies) == [
        "Bounce",
        "Complaint",
        "Delivery",
        "Delivery",
        "Delivery",
    ]
    assert all("tags" not in one["mail"] and "eventType" not in one for one in bodies)
    assert all(one["mail"]["sourceIp"] == "127.0.0.1" for one in bodies)
    assert all("Subject" not in envelope for envelope in subscribed.envelopes())
    states = {event["kind"]: event["state"] for event in sandbox.inbox()[0]["events"]}
    assert states["DeliveryDelay"] == "not published"


def test_headers_beyond_ten_kilobytes_are_cut_and_the_event_says_so(
    ses: Any, subscribed: Receiver
) -> None:
    params = simple_mail("ada@example.com")
    params["Content"]["Simple"]["Headers"] = [
        {"Name": f"X-Long-{number}", "Value": "v" * 950} for number in range(15)
    ]
    ses.send_email(**params)
    wait_for(lambda: len(subscribed.posts) == 2)
    mail = subscribed.events()[0]["mail"]
    assert mail["headersTruncated"] is True
    assert 5 < len(mail["headers"]) < 16


def test_every_subscriber_gets_the_same_message_id_with_its_own_unsubscribe_url(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    other = Receiver()
    try:
        sandbox.subscribe(other.url, confirm=False)
        send("ada@example.com")
        wait_for(lambda: len(subscribed.posts) == 2 and len(other.posts) == 2)
        mine, theirs = subscribed.envelopes()[0], other.envelopes()[0]
        assert mine["MessageId"] == theirs["MessageId"]
        assert mine["UnsubscribeURL"] != theirs["UnsubscribeURL"]
    finally:
        other.close()


def test_a_mail_without_subscribers_is_accepted_and_its_events_reach_nobody(
    send: Send, sandbox: Sandbox
) -> None:
    send("ada@example.com")
    wait_for(
        lambda: [event["state"] for event in sandbox.inbox()[0]["events"]] == ["no subscriber"] * 2
    )
    assert sandbox.deliveries() == []


def test_the_webhook_given_at_the_start_is_asked_until_it_is_there_and_confirms(
    client: Callable[..., Any], signer: Any
) -> None:
    receiver = Receiver()
    receiver.statuses = [None, 503, 404, 200]
    try:
        with Sandbox(signer=signer, webhook_url=receiver.url) as sandbox:
            wait_for(lambda: len(receiver.posts) == 4)
            asked = receiver.envelopes("SubscriptionConfirmation")
            assert len({(one["MessageId"], one["Token"]) for one in asked}) == 1
            ses, sns = client("sesv2", sandbox.url), client("sns", sandbox.url)
            ses.send_email(**simple_mail("early@example.com"))
            assert not sandbox.wait_confirmed(0.05)
            sns.confirm_subscription(TopicArn=sandbox.topic_arn, Token=asked[0]["Token"])
            assert sandbox.wait_confirmed()
            ses.send_email(**simple_mail("ada@example.com"))
            wait_for(lambda: receiver.kinds() == ["Send", "Delivery"])
            assert receiver.events()[0]["mail"]["destination"] == ["ada@example.com"]
    finally:
        receiver.close()
