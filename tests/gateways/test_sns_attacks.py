"""Attacks on the webhook's verification, numbered as in research/reliability.md section 4.2.

Every one starts from a message that would be accepted, so that only the attack can refuse it.
"""

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.errors import EnvelopeRefused, MalformedEnvelope, NotGenuine
from tests.signing import (
    CERTIFICATE_FILE,
    CERTIFICATE_URL,
    FOREIGN_TOPIC,
    TOPIC,
    Shelf,
    body_of,
    certificate,
    confirmation,
    make_reader,
    notification,
    rsa_key,
    sign,
    signature_of,
    string_to_sign,
)

HOST = "sns.eu-west-1.amazonaws.com"
BOTH = ("1", "2")


def refusal_of(body: bytes, headers: dict[str, str] | None = None, **reader: object):
    """Give the refusal, having seen that a certificate fit for it was there to be fetched."""
    shelf = Shelf({CERTIFICATE_URL: certificate()})
    with pytest.raises(EnvelopeRefused) as refused:
        make_reader(shelf, **reader)(headers or {}, body)
    return refused.value, shelf.asked


ADDRESSES = {
    "plain http": f"http://{HOST}/{CERTIFICATE_FILE}",
    "upper-case scheme": f"HTTPS://{HOST}/{CERTIFICATE_FILE}",
    "upper-case host": f"https://{HOST.upper()}/{CERTIFICATE_FILE}",
    "other region": f"https://sns.us-east-1.amazonaws.com/{CERTIFICATE_FILE}",
    "made-up region": f"https://sns.eu-west-9.amazonaws.com/{CERTIFICATE_FILE}",
    "no region": f"https://sns.amazonaws.com/{CERTIFICATE_FILE}",
    "suffix of China": f"https://{HOST}.cn/{CERTIFICATE_FILE}",
    "look-alike suffix": f"https://{HOST}.evil.example/{CERTIFICATE_FILE}",
    "look-alike prefix": f"https://evil-{HOST}/{CERTIFICATE_FILE}",
    "subdomain": f"https://x.{HOST}/{CERTIFICATE_FILE}",
    "trailing dot": f"https://{HOST}./{CERTIFICATE_FILE}",
    "bucket named sns": f"https://sns.s3-eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "bucket on dash host": f"https://sns.s3.amazonaws.com/{CERTIFICATE_FILE}",
    "bucket in path": f"https://s3.amazonaws.com/bucket/{CERTIFICATE_FILE}",
    "user-info": f"https://{HOST}@evil.example/{CERTIFICATE_FILE}",
    "user-info of the real host": f"https://x@{HOST}/{CERTIFICATE_FILE}",
    "backslash user-info": f"https://evil.example\\@{HOST}/{CERTIFICATE_FILE}",
    "backslashes": f"https:\\\\{HOST}\\{CERTIFICATE_FILE}",
    "port": f"https://{HOST}:443/{CERTIFICATE_FILE}",
    "other port": f"https://{HOST}:8080/{CERTIFICATE_FILE}",
    "query": f"https://{HOST}/{CERTIFICATE_FILE}?x=.pem",
    "bare query": f"https://{HOST}/{CERTIFICATE_FILE}?",
    "fragment": f"https://{HOST}/{CERTIFICATE_FILE}#",
    "host in the query": f"https://evil.example/?https://{HOST}/{CERTIFICATE_FILE}",
    "host in the fragment": f"https://evil.example/#https://{HOST}/{CERTIFICATE_FILE}",
    "path climb before": f"https://{HOST}/x/../{CERTIFICATE_FILE}",
    "path climb after": f"https://{HOST}/{CERTIFICATE_FILE}/../x",
    "percent-encoded dots": f"https://{HOST}/%2e%2e/{CERTIFICATE_FILE}",
    "percent-encoded name": f"https://{HOST}/%53{CERTIFICATE_FILE[1:]}",
    "double slash": f"https://{HOST}//{CERTIFICATE_FILE}",
    "folder": f"https://{HOST}/a/{CERTIFICATE_FILE}",
    "other file": f"https://{HOST}/other.pem",
    "short number": f"https://{HOST}/SimpleNotificationService-0123456789abcdef.pem",
    "long number": f"https://{HOST}/{CERTIFICATE_FILE.replace('.pem', '0.pem')}",
    "upper-case number": f"https://{HOST}/{CERTIFICATE_FILE.replace('abcdef', 'ABCDEF')}",
    "other ending": f"https://{HOST}/{CERTIFICATE_FILE[:-4]}.PEM",
    "Arabic digits": f"https://{HOST}/" + CERTIFICATE_FILE.replace("0", "\u0660"),
    "full-width host": f"https://\uff53ns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "long s": f"https://\u017fns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "Cyrillic a": f"https://sns.eu-west-1.\u0430mazonaws.com/{CERTIFICATE_FILE}",
    "leading space": f" {CERTIFICATE_URL}",
    "trailing space": f"{CERTIFICATE_URL} ",
    "no-break space": f"{CERTIFICATE_URL}\u00a0",
    "trailing newline": f"{CERTIFICATE_URL}\n",
    "trailing tab": f"{CERTIFICATE_URL}\t",
    "NUL": f"{CERTIFICATE_URL}\x00",
    "newline in the host": f"https://{HOST}\n/{CERTIFICATE_FILE}",
    "file": "file:///etc/passwd",
    "data": "data:application/x-pem-file;base64,AAAA",
    "ftp": f"ftp://{HOST}/{CERTIFICATE_FILE}",
    "no scheme": f"//{HOST}/{CERTIFICATE_FILE}",
    "relative": f"/{CERTIFICATE_FILE}",
    "IPv4": f"https://169.254.169.254/{CERTIFICATE_FILE}",
    "IPv4 as one number": f"https://2852039166/{CERTIFICATE_FILE}",
    "IPv6": f"https://[::1]/{CERTIFICATE_FILE}",
    "loopback": f"http://127.0.0.1/{CERTIFICATE_FILE}",
    "blank": "",
    "not an address": "h ttp://not a url",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES.keys())
def test_w1_w2_an_address_that_is_not_the_one_is_refused_without_a_request(address):
    refusal, asked = refusal_of(body_of(sign(notification(), url=address)))
    assert refusal.cause in ("certificate_address", "control_character")
    assert asked == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:4579@evil.example/",
        "http://127.0.0.1:45790/",
        "http://127.0.0.1:4579/../",
        "http://127.0.0.1:4579//",
        "https://127.0.0.1:4579/",
        "http://evil.example/http://127.0.0.1:4579/",
    ],
)
def test_w1_a_test_origin_is_compared_whole(address):
    body = body_of(sign(notification(), url=address + CERTIFICATE_FILE))
    refusal, asked = refusal_of(body, origins=("http://127.0.0.1:4579",))
    assert refusal.cause == "certificate_address"
    assert asked == []


@pytest.mark.parametrize("version", ["1", "3", "", "02", " 2", "2 ", "\u0662", "SHA256"])
def test_w7_a_signature_version_that_is_not_allowed_is_refused(version):
    refusal, asked = refusal_of(body_of(sign(notification()) | {"SignatureVersion": version}))
    assert isinstance(refusal, NotGenuine)
    assert refusal.cause == "signature_version"
    assert asked == []


def test_w7_the_version_decides_the_hash_also_when_both_are_allowed():
    for says, is_ in (("1", "2"), ("2", "1")):
        signed = sign(notification(), is_) | {"SignatureVersion": says}
        refusal, _ = refusal_of(body_of(signed), versions=BOTH)
        assert refusal.cause == "bad_signature"


NOTIFICATION_FIELDS = (
    *("Type", "MessageId", "TopicArn", "Message", "Timestamp"),
    *("SignatureVersion", "Signature", "SigningCertURL"),
)
VALUES = {
    "a number": 2,
    "a float": 2.0,
    "null": None,
    "true": True,
    "a list": ["2"],
    "an object": {"2": "2"},
}


@pytest.mark.parametrize("name", NOTIFICATION_FIELDS)
def test_w8_a_missing_field_is_malformed(name):
    signed = sign(notification())
    del signed[name]
    refusal, asked = refusal_of(body_of(signed))
    assert isinstance(refusal, MalformedEnvelope)
    assert asked == []


@pytest.mark.parametrize("name", ["Token", "SubscribeURL"])
@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_w8_a_confirmation_without_its_own_fields_is_malformed(kind, name):
    envelope = confirmation(kind)
    del envelope[name]
    refusal, asked = refusal_of(body_of(sign(envelope)))
    assert refusal.cause == "bad_field"
    assert asked == []


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize(
    "name", [*NOTIFICATION_FIELDS, "Subject", "Token", "SubscribeURL", "UnsubscribeURL"]
)
def test_w8_a_field_of_another_type_is_malformed(name, value):
    if name == "Subject" and value is None:
        return  # counts as absent
    refusal, asked = refusal_of(body_of(sign(notification()) | {name: value}))
    assert refusal.cause == "bad_field"
    assert asked == []


@pytest.mark.parametrize("name", ["MessageId", "TopicArn", "Type", "Timestamp"])
def test_w8_an_empty_field_is_refused(name):
    refusal, asked = refusal_of(body_of(sign(notification(**{name: ""}))))
    assert asked == []
    assert refusal.cause in ("bad_field", "foreign_topic", "unknown_type", "bad_time")


GOOD = body_of(sign(notification()))
BODIES = {
    "empty": b"",
    "blank": b"  \n",
    "BOM": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-16 without BOM": GOOD.decode().encode("utf-16-le"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "not UTF-8": GOOD[:-1] + b',"x":"\xff"}',
    "overlong UTF-8": GOOD[:-1] + b',"x":"\xc0\xaf"}',
    "surrogate in UTF-8": GOOD[:-1] + b',"x":"\xed\xa0\x80"}',
    "list": b"[" + GOOD + b"]",
    "string": json.dumps(GOOD.decode()).encode(),
    "number": b"1",
    "null": b"null",
    "two documents": GOOD + GOOD,
    "trailing comma": GOOD[:-1] + b",}",
    "comment": GOOD + b"// done",
    "single quotes": GOOD.replace(b'"', b"'"),
    "form": b"Type=Notification&TopicArn=" + TOPIC.encode(),
    "XML": b"<Type>Notification</Type>",
    "duplicate key": GOOD[:-1] + b',"TopicArn":"' + TOPIC.encode() + b'"}',
    "duplicate key, escaped": GOOD[:-1] + b',"\\u0054opicArn":"x"}',
    "duplicate key inside": GOOD[:-1] + b',"x":{"a":1,"a":1}}',
    "NaN": GOOD[:-1] + b',"x":NaN}',
    "Infinity": GOOD[:-1] + b',"x":-Infinity}',
    "overflow": GOOD[:-1] + b',"x":1e999999}',
    "long number": GOOD[:-1] + b',"x":' + b"9" * 100_000 + b"}",
    "long fraction": GOOD[:-1] + b',"x":0.' + b"9" * 100_000 + b"}",
    "raw newline in a string": GOOD.replace(b"Action", b"\nAction"),
    "deep list": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "deep member": GOOD[:-1] + b',"x":' + b"[" * 33 + b"]" * 33 + b"}",
    "half a string": b'{"a":"' + b'\\"' * 500_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_w8_w16_a_body_that_is_not_strict_json_is_malformed(body):
    started = time.monotonic()
    refusal, asked = refusal_of(body)
    assert isinstance(refusal, MalformedEnvelope)
    assert refusal.cause == "not_json"
    assert asked == []
    assert time.monotonic() - started < 2


def test_w8_what_is_not_signed_may_be_there_and_is_ignored():
    extra = {"MessageAttributes": {"a": {"Type": "String", "Value": "\u0000"}}, "Foo": [1.5, None]}
    assert make_reader()({}, body_of(sign(notification()) | extra))


@pytest.mark.parametrize("name", ["Message", "Subject", "MessageId", "UnsubscribeURL"])
def test_w16_half_a_character_is_malformed(name):
    body = json.dumps(sign(notification(Subject="s")) | {name: "\ud800"}).encode()
    refusal, asked = refusal_of(body)
    assert refusal.cause == "bad_field"
    assert asked == []


CONTROLS = ["\n", "\r", "\t", "\x00", "\x0b", "\x1f", "\x7f", "\x85", "\u2028"]


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
@pytest.mark.parametrize("name", ["Type", "TopicArn", "MessageId", "Timestamp"])
def test_w9_a_control_character_in_a_notification_is_refused_though_it_is_signed(name, control):
    envelope = notification()
    refusal, asked = refusal_of(body_of(sign(envelope | {name: f"{envelope[name]}{control}"})))
    assert refusal.cause == "control_character"
    assert asked == []


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
@pytest.mark.parametrize(
    "name", ["Token", "SubscribeURL", "Signature", "SignatureVersion", "UnsubscribeURL"]
)
def test_w9_a_control_character_in_a_confirmation_is_refused(name, control):
    signed = sign(confirmation())
    body = body_of(signed | {name: f"{signed.get(name, '')}{control}"})
    refusal, asked = refusal_of(body)
    assert refusal.cause == "control_character"
    assert asked == []


def recuttings():
    """Give messages that SNS signed for a foreign topic, split again so that they read as ours.

    Each has the signature of the true message and the very same string to sign.
    """
    tail = f"\nTimestamp\n2026-07-29T12:01:01.000Z\nTopicArn\n{TOPIC}\nType\nNotification"
    inner = f"\nMessageId\nc0000000-0000-4000-8000-000000000000{tail}"
    true = notification(f"forged{inner}", TopicArn=FOREIGN_TOPIC)
    rest = string_to_sign(true).split(tail, 1)[1].removesuffix("\n")
    yield "in Type", true, notification("forged", Type=f"Notification{rest}")
    true = notification(
        f"forged\nMessageId\nc0000000-0000-4000-8000-000000000000\nTimestamp\n"
        f"2026-07-29T12:01:01.000Z\nTopicArn\n{TOPIC}",
        TopicArn=FOREIGN_TOPIC,
    )
    rest = string_to_sign(true).split(f"TopicArn\n{TOPIC}", 1)[1].split("\nType\n")[0]
    yield "in TopicArn", true, notification("forged", TopicArn=f"{TOPIC}{rest}")
    true = notification("forged\nMessageId\nc0000000-0000-4000-8000-000000000000", TopicArn=TOPIC)
    yield (
        "in Timestamp",
        true,
        notification(
            "forged",
            Timestamp="2026-07-29T12:01:01.000Z",
            MessageId="c0000000-0000-4000-8000-000000000000\nMessageId\n" + str(true["MessageId"]),
        ),
    )
    true = notification("forged\nMessageId\nc0000000-0000-4000-8000-000000000000\nSubject\nhello")
    yield (
        "in Subject",
        true,
        notification(
            "forged",
            MessageId="c0000000-0000-4000-8000-000000000000",
            Subject=f"hello\nMessageId\n{true['MessageId']}",
        ),
    )


@pytest.mark.parametrize(("true", "recut"), [pytest.param(*x[1:], id=x[0]) for x in recuttings()])
def test_w9_a_message_that_was_split_again_is_refused(true, recut):
    recut = {"MessageId": "c0000000-0000-4000-8000-000000000000"} | recut
    if recut["MessageId"] == notification()["MessageId"]:
        recut["MessageId"] = "c0000000-0000-4000-8000-000000000000"
    assert string_to_sign(recut) == string_to_sign(true), "the attack must be a real one"
    signed = sign(true)
    forged = recut | {
        name: signed[name] for name in ("Signature", "SignatureVersion", "SigningCertURL")
    }
    refusal, asked = refusal_of(body_of(forged))
    assert refusal.cause == "control_character"
    assert asked == []


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_w10_a_header_cannot_turn_a_confirmation_into_something_else(kind):
    headers = {"x-amz-sns-message-type": "Notification"}
    refusal, _ = refusal_of(body_of(sign(confirmation(kind))), headers)
    assert refusal.cause == "header_mismatch"


def test_w10_a_changed_type_does_not_fit_the_signature():
    for signed, kind in (
        (sign(confirmation()), "UnsubscribeConfirmation"),
        (sign(confirmation()), "Notification"),
        (sign(notification(Token="t", SubscribeURL="u")), "SubscriptionConfirmation"),
    ):
        refusal, _ = refusal_of(body_of(signed | {"Type": kind}))
        assert refusal.cause == "bad_signature"


@pytest.mark.parametrize("make", [notification, confirmation])
@pytest.mark.parametrize(
    "topic",
    [
        FOREIGN_TOPIC,
        TOPIC + "-2",
        TOPIC.upper(),
        TOPIC.replace("eu-west-1", "us-east-1"),
        TOPIC + " ",
        f"{TOPIC},{FOREIGN_TOPIC}",
        TOPIC + ":2bcfbf39-05c3-41de-beaa-fcfcc21c8f55",
    ],
)
def test_w11_w12_a_genuine_message_of_another_topic_is_refused_without_a_request(topic, make):
    refusal, asked = refusal_of(body_of(sign(make(TopicArn=topic))))
    assert isinstance(refusal, NotGenuine)
    assert refusal.cause == "foreign_topic"
    assert asked == []


def test_w12_a_subscribe_url_of_a_stranger_is_never_read():
    envelope = confirmation(SubscribeURL="http://169.254.169.254/latest/meta-data/")
    shelf = Shelf({CERTIFICATE_URL: certificate()})
    offer = make_reader(shelf)({}, body_of(sign(envelope)))
    assert shelf.asked == [CERTIFICATE_URL]
    assert "169.254" not in repr(offer)
    assert not hasattr(offer, "subscribe_url")


@pytest.mark.parametrize("make", [notification, confirmation])
@pytest.mark.parametrize("version", BOTH)
def test_w15_one_changed_bit_in_any_signed_field_is_refused(make, version):
    signed = sign(make(Subject="hello") if make is notification else make(), version)
    names = [
        *("Message", "MessageId", "Timestamp"),
        *(("Subject",) if make is notification else ("SubscribeURL", "Token")),
    ]
    read = make_reader(versions=BOTH)
    assert read({}, body_of(signed))
    for name in names:
        text = str(signed[name])
        changed = text[:-2] + chr(ord(text[-2]) ^ 1) + text[-1]
        with pytest.raises(NotGenuine, match="bad_signature"):
            read({}, body_of(signed | {name: changed}))


def test_w15_a_subject_that_was_added_dropped_or_swapped_is_refused():
    with_subject, without = sign(notification(Subject="a")), sign(notification())
    for forged in (
        with_subject | {"Subject": "b"},
        with_subject | {"Subject": ""},
        with_subject | {"Subject": None},
        without | {"Subject": "a"},
        without | {"Subject": ""},
    ):
        refusal, _ = refusal_of(body_of(forged))
        assert refusal.cause == "bad_signature"


SIGNATURE = str(sign(notification())["Signature"])
SIGNATURES = {
    "empty": "",
    "no base64": "%%%%",
    "not ASCII": "é" * 344,
    "space inside": SIGNATURE[:10] + " " + SIGNATURE[10:],
    "space before": " " + SIGNATURE,
    "plus turned into space": SIGNATURE.replace("+", " ") if "+" in SIGNATURE else SIGNATURE + " ",
    "padding gone": SIGNATURE.rstrip("="),
    "more padding": SIGNATURE + "=",
    "URL alphabet": SIGNATURE[:-3] + "-_=",
    "loose last bits": SIGNATURE[:-3] + chr(ord(SIGNATURE[-3]) + 1) + "==",
    "short": base64.b64encode(b"\x00" * 255).decode(),
    "long": base64.b64encode(b"\x00" * 257).decode(),
    "zeroes": base64.b64encode(b"\x00" * 256).decode(),
    "ones": base64.b64encode(b"\xff" * 256).decode(),
    "number one": base64.b64encode(b"\x00" * 255 + b"\x01").decode(),
    "twice": SIGNATURE + SIGNATURE,
    "huge": "A" * 1_000_000,
    "of another key": signature_of(string_to_sign(notification()), key=rsa_key(number=1)),
    "without the last line feed": signature_of(string_to_sign(notification())[:-1]),
    "of nothing": signature_of(""),
}


@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=SIGNATURES.keys())
def test_w15_a_signature_that_is_not_exactly_it_is_refused(signature):
    refusal, _ = refusal_of(body_of(sign(notification()) | {"Signature": signature}))
    assert isinstance(refusal, NotGenuine)
    assert refusal.cause == "bad_signature"


INNER = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "NaN": '{"mail":{},"x":NaN}',
    "overflow": '{"mail":{},"x":1e999999}',
    "NUL": "\u0000",
    "escaped NUL": '{"mail":{"messageId":"\\u0000"}}',
    "lone surrogate": '{"mail":{"messageId":"\\ud800"}}',
    "duplicate keys": '{"mail":{},"mail":{}}',
    "large": '{"mail":{"x":"' + "y" * 1_000_000 + '"}}',
}


@pytest.mark.parametrize("text", INNER.values(), ids=INNER.keys())
def test_w16_a_genuine_message_is_handed_on_whatever_its_text(text):
    assert make_reader()({}, body_of(sign(notification(text)))).text == text


@pytest.mark.parametrize(
    "timestamp",
    ["never", "0", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "2026"],
)
def test_a_timestamp_that_is_no_time_is_malformed(timestamp):
    refusal, asked = refusal_of(body_of(sign(notification(Timestamp=timestamp))))
    assert refusal.cause == "bad_time"
    assert asked == []


@pytest.mark.parametrize("message_id", [" ", "a b", "ü", "x" * 257])
def test_a_message_id_that_is_no_id_is_malformed(message_id):
    refusal, asked = refusal_of(body_of(sign(notification(MessageId=message_id))))
    assert refusal.cause == "bad_field"
    assert asked == []


@pytest.mark.parametrize("token", ["", " ", "a b", "ü", "x" * 4097], ids=range(5))
def test_a_token_that_is_no_token_is_malformed(token):
    refusal, asked = refusal_of(body_of(sign(confirmation(Token=token))))
    assert refusal.cause == "bad_field"
    assert asked == []


@given(st.binary(max_size=300))
def test_whatever_bytes_arrive_the_answer_is_a_refusal_and_never_a_crash(body):
    refusal, asked = refusal_of(body)
    assert refusal.cause in {"not_json", "bad_field"}
    assert asked == []


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.sampled_from([*NOTIFICATION_FIELDS, "Subject", "Token", "SubscribeURL", "eventType"]),
        json_values,
        min_size=1,
        max_size=6,
    )
)
def test_whatever_stands_in_the_fields_the_answer_is_a_refusal_and_never_a_crash(changes):
    if changes == {"Subject": None} or set(changes) <= {"Token", "SubscribeURL", "eventType"}:
        return
    body = json.dumps(sign(notification()) | changes).encode()
    refusal, _ = refusal_of(body)
    assert refusal.cause
