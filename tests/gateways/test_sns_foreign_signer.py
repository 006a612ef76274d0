"""What a signer that we did not write signs is believed."""

from datetime import UTC, datetime

import pytest

from mail_service.domain.events import Notification
from mail_service.errors import NotGenuine
from tests.moto_signer import moto_signer
from tests.signing import Envelope, Shelf, body_of, make_reader

TEXTS = [
    '{"eventType":"Send","mail":{}}\nü ✉',
    "",
    "\n",
    "a\r\nMessageId\nb\n",
    "\x00\x7f\u2028\U0001f600",
    "x" * 250_000,
]


@pytest.fixture
def moto(monkeypatch):
    with moto_signer(monkeypatch) as sign:
        yield sign


def reader_for(data: Envelope, pem: bytes):
    shelf = Shelf({str(data["SigningCertURL"]): pem})
    topic = str(data["TopicArn"])
    return make_reader(shelf, topics=(topic,), clock=lambda: datetime.now(UTC))


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_moto_signs_is_believed(moto, text):
    data, pem = moto(text)
    envelope = reader_for(data, pem)({}, body_of(data))
    assert isinstance(envelope, Notification)
    assert envelope.text == text == data["Message"]


def test_moto_leaves_the_subject_out_of_what_it_signs_and_is_not_believed_then(moto):
    data, pem = moto("text", subject="a subject")
    with pytest.raises(NotGenuine, match="bad_signature"):
        reader_for(data, pem)({}, body_of(data))
    del data["Subject"]
    assert reader_for(data, pem)({}, body_of(data))
