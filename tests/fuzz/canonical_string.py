"""What is signed is what AWS describes, and can be read as one set of fields and as no other.

The second half is the reason that a message signed for one topic, or under one id, can't be cut anew
into another (research: re-cut messages): whatever is believed is found again from its signed text.
"""

import json
from collections.abc import Callable, Iterator, Mapping

from mail_service.domain.strict_json import read_time
from mail_service.gateways import sns
from tests.fuzz.envelope import NAMES, answer, as_read, reader
from tests.fuzz.inputs import BETWEEN, input_of, is_utf8, texts_of
from tests.signing import CERTIFICATE_URL, TOPIC, sign, string_to_sign

TYPES = ("Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation")
AT = "2026-07-29T12:01:01.000Z"
TOKENS = (
    *NAMES,
    *TYPES,
    *("\nMessageId\n", "\nSubject\n", "\nTimestamp\n", "\nTopicArn\n", "\nType\n", TOPIC, AT),
    *("\r", "\n", "\u2028", "\x85", BETWEEN),
)

SignedText = Callable[[Mapping[str, str]], bytes]


def check(data: bytes, signed_text: SignedText = sns.signed_text) -> None:
    """The texts: a type by its length, Message, MessageId, Timestamp, Token, SubscribeURL, Subject?"""
    kind, words, number, at, token, url, *subject = texts_of(data, 6)
    fields = {
        "Type": TYPES[len(kind) % 3],
        "Message": words,
        "MessageId": number,
        "Timestamp": at,
        "TopicArn": TOPIC,
    }
    if fields["Type"] != "Notification":
        fields |= {"Token": token, "SubscribeURL": url}
    elif subject:
        fields |= {"Subject": BETWEEN.join(subject)}
    text = string_to_sign(fields)
    if is_utf8(text):
        assert signed_text(fields) == text.encode()
    unsigned = {"SignatureVersion": "2", "Signature": "AAAA", "SigningCertURL": CERTIFICATE_URL}
    if answer(reader(), {}, json.dumps(fields | unsigned).encode()) != "bad_signature":
        return
    # All but the signature is fine, so with one it is believed.
    when = read_time(at)
    assert when is not None
    signed = sign(fields)
    assert answer(reader(), {}, json.dumps(signed).encode()) == as_read(signed, when)
    assert _taken_apart(text) == fields


def _taken_apart(text: str) -> dict[str, str]:
    """Give the fields of a signed text: from its end, where no value can hold a line feed."""
    lines = text.split("\n")
    assert lines.pop() == ""
    fields: dict[str, str] = {}

    def take(*names: str) -> None:
        for name in names:
            fields[name] = lines.pop()
            assert lines.pop() == name

    take("Type", "TopicArn")
    if fields["Type"] != "Notification":
        take("Token", "Timestamp", "SubscribeURL", "MessageId")
    else:
        take("Timestamp")
        # No line of a Subject reads MessageId, nor does an id: the last such line is the name.
        found = len(lines) - 1 - lines[::-1].index("MessageId")
        lines, rest = lines[:found], lines[found + 1 :]
        fields["MessageId"] = rest.pop(0)
        if rest:
            assert rest.pop(0) == "Subject"
            fields["Subject"] = "\n".join(rest)
    assert lines.pop(0) == "Message"
    fields["Message"] = "\n".join(lines)
    return fields


def seeds() -> Iterator[bytes]:
    """Give one of each type, with and without a Subject, and texts that look like fields."""
    for kind in ("", "1", "22"):
        yield input_of(kind, "{}", "id-1", AT, "token", "https://example.com/")
    yield input_of("", "text\n", "id-1", AT, "", "", "a subject")
    yield input_of("", "a\nMessageId\nid-2\nSubject\nb", "id-1", AT, "", "", "MessageId", "c")
    yield input_of("", f"a\nTimestamp\n{AT}\nTopicArn\n{TOPIC}\nType\nNotification", "id", AT)
    yield input_of("", "m", "MessageId", AT, "", "", "Subject\nfoo")
    yield input_of("", "m\nMessageId", "Subject", AT, "", "", "foo")
