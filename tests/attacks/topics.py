"""W11 to W14 and W17 to W21: whose message it is, what it asks for, and how often."""

import json
import random

from tests.attacks.attack import (
    HARM,
    KNOWN_ID,
    VICTIM,
    VICTIMS_TAG,
    Attacks,
    attack,
    harmful,
    signed_harm,
)
from tests.signing import FOREIGN_TOPIC, TOPIC, body_of, confirmation, notification, rsa_key, sign
from tests.steps import ses_event

METADATA = "http://169.254.169.254/latest/meta-data/"
TOPICS = {
    "another account": FOREIGN_TOPIC,
    "another topic of ours": f"{TOPIC}-2",
    "a shorter name": TOPIC[:-1],
    "another region": TOPIC.replace("eu-west-1", "us-east-1"),
    "another partition": TOPIC.replace("arn:aws:", "arn:aws-cn:"),
    "another service": TOPIC.replace(":sns:", ":sqs:"),
    "upper case": TOPIC.upper(),
    "a space behind": f"{TOPIC} ",
    "two topics": f"{TOPIC},{FOREIGN_TOPIC}",
    "a subscription": f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55",
    "a long s": TOPIC.replace("ses", "\u017fes"),
}


def owners() -> Attacks:
    """W11 to W13: genuine, but of a topic that is not ours; or not genuine, and asking for more."""
    for name, topic in TOPICS.items():
        yield attack("W11", name, signed_harm(TopicArn=topic), "foreign_topic")
        yield attack("W12", name, sign(confirmation(TopicArn=topic)), "foreign_topic")
    gone = "UnsubscribeConfirmation"
    for name in ("another account", "another topic of ours"):
        body = sign(confirmation(gone, TopicArn=TOPICS[name]))
        yield attack("W13", f"unsubscribed: {name}", body, "foreign_topic")
    for row, kind in (("W12", "SubscriptionConfirmation"), ("W13", gone)):
        signed = sign(confirmation(kind))
        for name in ("SubscribeURL", "Token"):
            forged = signed | {name: METADATA}
            yield attack(row, f"{name} changed", forged, "bad_signature")
        own_key = sign(confirmation(kind, SubscribeURL=METADATA), key=rsa_key(number=1))
        yield attack(row, "signed by a stranger", own_key, "bad_signature")
        yield attack(row, "unsigned", confirmation(kind, SubscribeURL=METADATA), "bad_field")
    leaked = signed_harm() | {"UnsubscribeURL": METADATA, "Message": "{}"}
    yield attack("W13", "with another UnsubscribeURL", leaked, "bad_signature")


def replays() -> Attacks:
    """W14: an event that is known, changed so that it looks new."""
    known = sign(harmful(MessageId=KNOWN_ID))
    for name, value in (
        ("MessageId", "00000000-0000-4000-8000-00000000000b"),
        ("MessageId", KNOWN_ID.upper()),
        ("MessageId", KNOWN_ID.replace("-", "")),
        ("Timestamp", "2026-07-29T12:01:01.001Z"),
        ("Timestamp", "2026-07-29T12:01:01Z"),
    ):
        yield attack("W14", f"{name} {value}", known | {name: value}, "bad_signature")
    yield attack("W14", "under another topic", known | {"TopicArn": FOREIGN_TOPIC}, "foreign_topic")


def forgeries() -> Attacks:
    """W17, W18: our tag and our recipient, in events that nobody of ours was told."""
    for row, event in (
        ("W17", ses_event("Bounce", tag=VICTIMS_TAG, recipients=(VICTIM,))),
        ("W17", ses_event("Send", tag=VICTIMS_TAG, message_id="of-another-call")),
        ("W18", ses_event("Complaint", recipients=("other@example.com", VICTIM))),
        ("W18", ses_event("Bounce", message_id="message-1", recipients=(VICTIM,))),
    ):
        text, kind = json.dumps(event), event["eventType"]
        name = f"{kind} by {'tag' if 'tags' in event['mail'] else 'id'}"
        foreign = sign(notification(text, TopicArn=FOREIGN_TOPIC))
        yield attack(row, f"{name}, of another's topic", foreign, "foreign_topic")
        said_ours = foreign | {"TopicArn": TOPIC}
        yield attack(row, f"{name}, said to be of ours", said_ours, "bad_signature")
        strangers = sign(notification(text), key=rsa_key(number=1))
        yield attack(row, f"{name}, signed by a stranger", strangers, "bad_signature")
        raw = {"x-amz-sns-rawdelivery": "true"}
        yield attack(row, f"{name}, raw", text.encode(), "raw_delivery")
        yield attack(row, f"{name}, raw and said so", text.encode(), "raw_delivery", headers=raw)
    bounce = json.dumps(ses_event("Bounce", tag=VICTIMS_TAG, recipients=("other@example.com",)))
    genuine = sign(notification(bounce))
    added = {"Message": bounce.replace("other@example.com", VICTIM)}
    yield attack("W18", "a recipient changed after signing", genuine | added, "bad_signature")


def floods() -> Attacks:
    """W19 to W21: junk of each kind that costs the least to make, and questions that fish."""
    chance = random.Random(19)
    for number in range(5):
        yield attack("W19", f"random bytes {number}", chance.randbytes(400), "not_json")
    yield attack("W19", "nothing but an object", b"{}", "bad_field")
    large = body_of(signed_harm())
    for name, filler in (("spaces", b" "), ("nonsense", b"x"), ("digits", b"9")):
        yield attack("W19", f"a body too large: {name}", large + filler * 1_572_865, "too_large")
    for number in range(5):
        event = json.dumps(ses_event("Delivery", message_id=f"made-up-{number}"))
        strange = sign(notification(event, MessageId=f"flood-{number}", TopicArn=FOREIGN_TOPIC))
        yield attack("W19", f"validly signed, foreign {number}", strange, "foreign_topic")
        ours = strange | {"TopicArn": TOPIC}
        yield attack("W20", f"an event of no call {number}", ours, "bad_signature")
    for name, number in (("known", KNOWN_ID), ("unknown", KNOWN_ID.replace("a", "f"))):
        forged = sign(harmful(MessageId=number), key=rsa_key(number=1))
        yield attack("W21", f"is this id known? {name}", forged, "bad_signature")
    for name, tag in (("known", VICTIMS_TAG), ("unknown", VICTIMS_TAG.replace("4", "e"))):
        text = HARM.replace(VICTIMS_TAG, tag)
        forged = sign(notification(text, MessageId="fishing"), key=rsa_key(number=1))
        yield attack("W21", f"is this tag known? {name}", forged, "bad_signature")


def attacks() -> Attacks:
    """Give all of them."""
    for rows in (owners, replays, forgeries, floods):
        yield from rows()
