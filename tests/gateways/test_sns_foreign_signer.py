"""A signer that we did not write: moto's SNS.

It signs Notifications only, and with SignatureVersion 2 only.
"""

from datetime import UTC, datetime

import boto3
import pytest
import requests
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.sns.models import sns_backends

from mail_service.domain.events import Notification
from mail_service.errors import NotGenuine
from tests.signing import Shelf, body_of, make_reader

REGION = "eu-west-1"


@pytest.fixture
def signed(monkeypatch):
    """Give a function that has moto sign a text, and the reader that is to believe it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        topic = boto3.client("sns", region_name=REGION).create_topic(Name="ses-events")["TopicArn"]
        backend = sns_backends[DEFAULT_ACCOUNT_ID][REGION]
        client = boto3.client("sns", region_name=REGION)
        client.subscribe(TopicArn=topic, Protocol="https", Endpoint="https://example.com/hook")
        subscription = next(iter(backend.subscriptions.values()))

        def make(text: str, subject: str | None = None):
            data = subscription.get_post_data(
                message=text, message_id="22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", subject=subject
            )
            url = data["SigningCertURL"]
            shelf = Shelf({url: requests.get(url, timeout=5).content})  # moto answers this too
            read = make_reader(shelf, topics=(topic,), clock=lambda: datetime.now(UTC))
            return read, data

        yield make


def test_what_moto_signs_is_believed(signed):
    read, data = signed('{"eventType":"Send","mail":{}}\nü ✉')
    envelope = read({}, body_of(data))
    assert isinstance(envelope, Notification)
    assert envelope.text == data["Message"]


def test_moto_leaves_the_subject_out_of_what_it_signs_and_is_not_believed_then(signed):
    read, data = signed("text", subject="a subject")
    with pytest.raises(NotGenuine, match="bad_signature"):
        read({}, body_of(data))
    del data["Subject"]
    assert read({}, body_of(data))
