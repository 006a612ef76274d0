"""A dead-letter queue of SNS, on a real SQS server of somebody else's, spoken to by the real client."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from mail_service.gateways.sqs import SqsDeadLetters, sqs_dead_letters


@dataclass(frozen=True)
class Queue:
    """What a test does to the queue, as SNS and as somebody who looks at it."""

    url: str
    client: Any
    letters: SqsDeadLetters

    def put(self, *bodies: bytes) -> None:
        """Place letters as SNS does: the body is what the endpoint would have got."""
        for first in range(0, len(bodies), 10):
            entries = [
                {"Id": str(n), "MessageBody": body.decode()}
                for n, body in enumerate(bodies[first : first + 10])
            ]
            assert not self.client.send_message_batch(QueueUrl=self.url, Entries=entries).get(
                "Failed"
            )

    def counted(self) -> tuple[int, int]:
        """Give how many letters can be seen, and how many are hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return int(told["Attributes"][names[0]]), int(told["Attributes"][names[1]])


@pytest.fixture
def queue(moto: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """An empty queue."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    client = boto3.client("sqs", endpoint_url=moto, region_name="eu-west-1")
    url = client.create_queue(QueueName="dead-letters")["QueueUrl"]
    letters = sqs_dead_letters(url, region="eu-west-1", allow_http=True, wait_seconds=0)
    yield Queue(url, client, letters)
    client.delete_queue(QueueUrl=url)
    client.close()
