"""W7 to W10: the envelope's version, form, controls and headers."""

import json

from tests.attacks.attack import HARM, Attacks, attack, harmful, signed_harm
from tests.signing import (
    FOREIGN_TOPIC,
    TOPIC,
    Envelope,
    body_of,
    confirmation,
    notification,
    sign,
    string_to_sign,
)

BOTH = ("1", "2")
NOTIFICATION_FIELDS = (
    *("Type", "MessageId", "TopicArn", "Message", "Timestamp"),
    *("SignatureVersion", "Signature", "SigningCertURL"),
)
VALUES = {
    "a number": 2,
    "null": None,
    "true": True,
    "a list": ["2"],
    "an object": {"2": "2"},
}
CONTROLS = ["\n", "\r", "\t", "\x00", "\x0b", "\x1f", "\x7f", "\x85", "\u2028"]
NUMBER = "c0000000-0000-4000-8000-000000000000"
AT = "2026-07-29T12:01:01.000Z"


def versions() -> Attacks:
    """W7."""
    yield attack("W7", "version 1, not allowed", sign(harmful(), "1"), "signature_version")
    for version in ("1", "3", "0", "", "02", "2.0", " 2", "2 ", "\u0662", "SHA256", "2,1"):
        envelope = signed_harm() | {"SignatureVersion": version}
        yield attack("W7", f"said to be {version!r}", envelope, "signature_version")
    for says, is_ in (("1", "2"), ("2", "1")):
        envelope = sign(harmful(), is_) | {"SignatureVersion": says}
        name = f"{is_} said to be {says}, both allowed"
        yield attack("W7", name, envelope, "bad_signature", versions=BOTH)


def fields() -> Attacks:
    """W8, one field at a time."""
    good = signed_harm()
    for name in NOTIFICATION_FIELDS:
        without = {key: value for key, value in good.items() if key != name}
        yield attack(
            "W7" if name == "SignatureVersion" else "W8", f"no {name}", without, "bad_field"
        )
        for what, value in VALUES.items():
            row = "W7" if name == "SignatureVersion" else "W8"
            yield attack(row, f"{name} is {what}", good | {name: value}, "bad_field")
        if name in ("SignatureVersion", "Message"):
            continue  # W7, and an empty text is a text
        signed = sign(harmful(**{name: ""})) if name in harmful() else good | {name: ""}
        cause = {
            "Type": "unknown_type",
            "MessageId": "bad_field",
            "TopicArn": "foreign_topic",
            "Timestamp": "bad_time",
            "Signature": "bad_signature",
            "SigningCertURL": "certificate_address",
        }[name]
        yield attack("W8", f"{name} is empty", signed, cause)
    for name in ("Subject", "Token", "SubscribeURL", "UnsubscribeURL"):
        for what in ("a number", "a list"):
            yield attack("W8", f"{name} is {what}", good | {name: VALUES[what]}, "bad_field")
    for kind in ("SubscriptionConfirmation", "UnsubscribeConfirmation"):
        for name in ("Token", "SubscribeURL"):
            envelope = {k: v for k, v in confirmation(kind).items() if k != name}
            yield attack("W8", f"{kind} without {name}", sign(envelope), "bad_field")
    lower = {key.lower(): value for key, value in good.items()}
    yield attack("W8", "lower-case names", lower, "bad_field")
    yield attack("W8", "two spellings", good | {"UnsubscribeUrl": "x"}, "bad_field")
    yield attack("W8", "unknown type", sign(harmful(Type="notification")), "unknown_type")
    yield attack(
        "W8", "half a character", json.dumps(good | {"Message": "\ud800"}).encode(), "bad_field"
    )
    for time in (
        "never",
        "0",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "1969-12-31T23:59:59Z",
    ):
        yield attack("W8", f"the time {time}", sign(harmful(Timestamp=time)), "bad_time")
    for number in (" ", "a b", "ü", "x" * 257):
        yield attack("W8", f"the id {number[:9]!r}", sign(harmful(MessageId=number)), "bad_field")
    for token in ("", "a b", "x" * 4097):
        yield attack("W8", f"the token {token[:9]!r}", sign(confirmation(Token=token)), "bad_field")


def bodies() -> Attacks:
    """W8 and W16: what is not strict JSON in UTF-8."""
    good = body_of(signed_harm())
    part, text = good[:-1], good.decode()
    for name, body in {
        "empty": b"",
        "blank": b"  \n",
        "BOM": b"\xef\xbb\xbf" + good,
        "UTF-16": text.encode("utf-16"),
        "UTF-16 without BOM": text.encode("utf-16-le"),
        "UTF-32": text.encode("utf-32"),
        "UTF-7": b"+AHs-" + good[1:],
        "not UTF-8": part + b',"x":"\xff"}',
        "overlong UTF-8": part + b',"x":"\xc0\xaf"}',
        "surrogate in UTF-8": part + b',"x":"\xed\xa0\x80"}',
        "list": b"[" + good + b"]",
        "string": json.dumps(text).encode(),
        "number": b"1",
        "null": b"null",
        "two documents": good + good,
        "two lines": good + b"\n" + good,
        "trailing comma": part + b",}",
        "comment": good + b"// done",
        "single quotes": good.replace(b'"', b"'"),
        "form": b"Type=Notification&TopicArn=" + TOPIC.encode(),
        "XML": b"<Type>Notification</Type>",
        "duplicate key": part + b',"TopicArn":"' + TOPIC.encode() + b'"}',
        "duplicate Message": part + b',"Message":"{}"}',
        "duplicate key, escaped": part + b',"\\u0054opicArn":"x"}',
        "duplicate key inside": part + b',"x":{"a":1,"a":1}}',
        "raw newline in a string": good.replace(b"mail", b"\nmail"),
        "NUL after the end": good + b"\0",
    }.items():
        yield attack("W8", name, body, "not_json")
    for name, body in {
        "NaN": part + b',"x":NaN}',
        "Infinity": part + b',"x":-Infinity}',
        "overflow": part + b',"x":1e999999}',
        "long number": part + b',"x":' + b"9" * 100_000 + b"}",
        "long fraction": part + b',"x":0.' + b"9" * 100_000 + b"}",
        "deep list": b"[" * 100_000 + b"]" * 100_000,
        "deep object": b'{"a":' * 100_000,
        "deep member": part + b',"x":' + b"[" * 33 + b"]" * 33 + b"}",
        "half a string": b'{"a":"' + b'\\"' * 500_000,
    }.items():
        yield attack("W16", f"unsigned: {name}", body, "not_json")


def controls() -> Attacks:
    """W9: a control character where a line feed would join two fields, though it is signed."""
    for control in CONTROLS:
        for name in ("Type", "TopicArn", "MessageId", "Timestamp"):
            envelope = harmful()
            signed = sign(envelope | {name: f"{envelope[name]}{control}"})
            yield attack("W9", f"{control!a} in {name}", signed, "control_character")
        for name in ("Token", "SubscribeURL"):
            signed = sign(confirmation(**{name: f"x{control}"}))
            yield attack("W9", f"{control!a} in {name}", signed, "control_character")
    for name in ("Signature", "SignatureVersion", "UnsubscribeURL"):
        signed = signed_harm()
        yield attack(
            "W9",
            f"a line feed in {name}",
            signed | {name: f"{signed[name]}\n"},
            "control_character",
        )


def cuts() -> Attacks:
    """W9: messages that SNS signed for someone else, cut anew into ones of ours."""
    tail = f"\nTimestamp\n{AT}\nTopicArn\n{TOPIC}\nType\nNotification"
    true = notification(f"{HARM}\nMessageId\n{NUMBER}{tail}", TopicArn=FOREIGN_TOPIC)
    rest = string_to_sign(true).split(tail, 1)[1].removesuffix("\n")
    cut = harmful(MessageId=NUMBER, Type=f"Notification{rest}")
    yield attack("W9", "cut anew in Type", resigned(true, cut), "control_character")

    inner = f"\nMessageId\n{NUMBER}\nTimestamp\n{AT}\nTopicArn\n{TOPIC}"
    true = notification(f"{HARM}{inner}", TopicArn=FOREIGN_TOPIC)
    rest = string_to_sign(true).split(f"TopicArn\n{TOPIC}", 1)[1].split("\nType\n")[0]
    cut = harmful(MessageId=NUMBER, TopicArn=f"{TOPIC}{rest}")
    yield attack("W9", "cut anew in TopicArn", resigned(true, cut), "control_character")

    true = notification(f"{HARM}\nMessageId\n{NUMBER}")
    cut = harmful(MessageId=f"{NUMBER}\nMessageId\n{true['MessageId']}")
    yield attack("W9", "cut anew in MessageId", resigned(true, cut), "control_character")

    true = notification(f"{HARM}\nMessageId\n{NUMBER}\nSubject\nhello")
    cut = harmful(MessageId=NUMBER, Subject=f"hello\nMessageId\n{true['MessageId']}")
    yield attack("W9", "cut anew in Subject", resigned(true, cut), "control_character")

    true = notification(f"{HARM}\nMessageId", MessageId="Subject", Subject="b")
    cut = harmful(MessageId="MessageId", Subject="Subject\nb")
    yield attack("W9", "cut anew around the id", resigned(true, cut), "bad_field")


def resigned(true: Envelope, cut: Envelope) -> Envelope:
    """Give the cut message under the true one's signature, which fits it byte for byte."""
    assert string_to_sign(cut) == string_to_sign(true), "the attack must be a real one"
    names = ("Signature", "SignatureVersion", "SigningCertURL")
    return cut | {name: value for name, value in sign(true).items() if name in names}


def headers() -> Attacks:
    """W10: the headers say something else than the signed body."""
    for name, value in (
        ("x-amz-sns-message-type", "SubscriptionConfirmation"),
        ("x-amz-sns-message-type", "notification"),
        ("x-amz-sns-message-type", "Notification, SubscriptionConfirmation"),
        ("x-amz-sns-topic-arn", FOREIGN_TOPIC),
        ("x-amz-sns-topic-arn", f"{TOPIC}, {FOREIGN_TOPIC}"),
        ("x-amz-sns-message-id", NUMBER),
    ):
        yield attack(
            "W10", f"{name}: {value}", signed_harm(), "header_mismatch", headers={name: value}
        )
    for kind in ("SubscriptionConfirmation", "UnsubscribeConfirmation"):
        named = {"x-amz-sns-message-type": "Notification"}
        body = sign(confirmation(kind))
        yield attack("W10", f"{kind} as a notification", body, "header_mismatch", headers=named)
    for signed, kind in (
        (sign(confirmation()), "UnsubscribeConfirmation"),
        (sign(confirmation()), "Notification"),
        (sign(harmful(Token="t", SubscribeURL="u")), "SubscriptionConfirmation"),
        (sign(harmful(Token="t", SubscribeURL="u")), "UnsubscribeConfirmation"),
    ):
        name = f"a {signed['Type']} turned into a {kind}"
        named = {"x-amz-sns-message-type": kind}
        yield attack("W10", name, signed | {"Type": kind}, "bad_signature", headers=named)


def attacks() -> Attacks:
    """Give all of them."""
    for rows in (versions, fields, bodies, controls, cuts, headers):
        yield from rows()
