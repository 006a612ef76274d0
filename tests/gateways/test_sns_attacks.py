"""What the attacks of tests/attacks do not say: test origins, what is not signed, and any bytes at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.errors import EnvelopeRefused
from tests.attacks.envelopes import NOTIFICATION_FIELDS
from tests.signing import (
    CERTIFICATE_FILE,
    CERTIFICATE_URL,
    Shelf,
    body_of,
    certificate,
    confirmation,
    make_reader,
    notification,
    sign,
)


def refusal_of(body: bytes, headers: dict[str, str] | None = None, **reader: object):
    """Give the refusal, having seen that a certificate fit for it was there to be fetched."""
    shelf = Shelf({CERTIFICATE_URL: certificate()})
    with pytest.raises(EnvelopeRefused) as refused:
        make_reader(shelf, **reader)(headers or {}, body)
    return refused.value, shelf.asked


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


def test_w8_what_is_not_signed_may_be_there_and_is_ignored():
    extra = {"MessageAttributes": {"a": {"Type": "String", "Value": "\u0000"}}, "Foo": [1.5, None]}
    assert make_reader()({}, body_of(sign(notification()) | extra))


def test_w12_a_subscribe_url_of_a_stranger_is_never_read():
    envelope = confirmation(SubscribeURL="http://169.254.169.254/latest/meta-data/")
    shelf = Shelf({CERTIFICATE_URL: certificate()})
    offer = make_reader(shelf)({}, body_of(sign(envelope)))
    assert shelf.asked == [CERTIFICATE_URL]
    assert "169.254" not in repr(offer)
    assert not hasattr(offer, "subscribe_url")


INNER = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "NaN": '{"mail":{},"x":NaN}',
    "NUL": "\u0000",
    "escaped NUL": '{"mail":{"messageId":"\\u0000"}}',
    "lone surrogate": '{"mail":{"messageId":"\\ud800"}}',
    "large": '{"mail":{"x":"' + "y" * 1_000_000 + '"}}',
}


@pytest.mark.parametrize("text", INNER.values(), ids=INNER.keys())
def test_w16_a_genuine_message_is_handed_on_whatever_its_text(text):
    assert make_reader()({}, body_of(sign(notification(text)))).text == text


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
