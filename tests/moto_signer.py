"""A signer of SNS messages that we did not write: moto's SNS.

It signs Notifications only, and with SignatureVersion 2 only.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
import pytest
import requests
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.sns.models import sns_backends

from tests.signing import Envelope

REGION = "eu-west-1"
Sign = Callable[[str, str | None], tuple[Envelope, bytes]]


@contextmanager
def moto_signer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sign]:
    """Give a function that has moto sign a text; it gives the message and its certificate."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        client = boto3.client("sns", region_name=REGION)
        topic = client.create_topic(Name="ses-events")["TopicArn"]
        client.subscribe(TopicArn=topic, Protocol="https", Endpoint="https://example.com/hook")
        subscription = next(iter(sns_backends[DEFAULT_ACCOUNT_ID][REGION].subscriptions.values()))

        def sign(text: str, subject: str | None = None) -> tuple[Envelope, bytes]:
            data = subscription.get_post_data(
                message=text, message_id="22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", subject=subject
            )
            pem = requests.get(data["SigningCertURL"], timeout=5).content  # moto answers this, too
            return data, pem

        yield sign
