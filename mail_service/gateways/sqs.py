"""The dead-letter queue in which SNS keeps what it could not deliver to us within its hour."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from mail_service.errors import InvalidFields, Unavailable
from mail_service.ports import DeadLetter

HIDDEN_SECONDS = 900
"""How long a letter that we took is hidden from others. What is deleted by then is gone, the rest is
given back at the end of a pass, or by the queue itself should we die."""

_AT_ONCE = 10  # the most that SQS hands out or deletes in one request
WAIT_SECONDS = 2
"""Any wait at all has all of SQS's servers asked; a short poll asks some, and may miss letters."""

_HOST = re.compile(r"sqs(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.(?:com|com\.cn|eu)")

Answer = TypeVar("Answer")


class SqsClient(Protocol):
    """What is used of boto3's client; its stubs are not among our dependencies."""

    def get_queue_attributes(self, **request: object) -> dict[str, Any]:
        """See the SQS API reference, like the others."""
        ...

    def receive_message(self, **request: object) -> dict[str, Any]: ...
    def delete_message_batch(self, **request: object) -> dict[str, Any]: ...
    def change_message_visibility_batch(self, **request: object) -> dict[str, Any]: ...


class SqsDeadLetters:
    """The letters of one queue (:class:`mail_service.ports.DeadLetters`)."""

    def __init__(self, client: SqsClient, queue_url: str, *, wait_seconds: int) -> None:
        self._client = client
        self._url = queue_url
        self._wait_seconds = wait_seconds

    def waiting(self) -> int:
        """Give about how many letters wait; SQS itself counts no closer."""
        answer = _asked(
            lambda: self._client.get_queue_attributes(
                QueueUrl=self._url, AttributeNames=["ApproximateNumberOfMessages"]
            )
        )
        return int(answer.get("Attributes", {}).get("ApproximateNumberOfMessages", 0))

    def receive(self) -> Sequence[DeadLetter]:
        """Take up to ten letters, hidden from others for HIDDEN_SECONDS."""
        answer = _asked(
            lambda: self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=_AT_ONCE,
                VisibilityTimeout=HIDDEN_SECONDS,
                WaitTimeSeconds=self._wait_seconds,
            )
        )
        return [
            DeadLetter(
                id=letter["MessageId"],
                receipt=letter["ReceiptHandle"],
                # Half a character can't be encoded; what stands there then is signed by nobody.
                body=letter["Body"].encode(errors="replace"),
            )
            for letter in answer.get("Messages", [])
        ]

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete letters, ten at once. One that SQS could not delete is seen again, and known then."""
        self._each_ten(receipts, self._client.delete_message_batch)

    def give_back(self, receipts: Sequence[str]) -> None:
        """Let letters be seen by others at once; a receipt that is too old changes nothing."""
        self._each_ten(receipts, self._client.change_message_visibility_batch, VisibilityTimeout=0)

    def _each_ten(
        self, receipts: Sequence[str], ask: Callable[..., object], **more: object
    ) -> None:
        for first in range(0, len(receipts), _AT_ONCE):
            entries = [
                {"Id": str(number), "ReceiptHandle": receipt, **more}
                for number, receipt in enumerate(receipts[first : first + _AT_ONCE])
            ]
            _asked(lambda entries=entries: ask(QueueUrl=self._url, Entries=entries))


def sqs_dead_letters(
    queue_url: str, *, region: str, allow_http: bool, wait_seconds: int = WAIT_SECONDS
) -> SqsDeadLetters:
    """Give the letters of a queue; nothing is asked yet. Raises InvalidFields for what is no queue's URL.

    Requests go where the URL points, so that a VPC endpoint works too.
    """
    parts = urlsplit(queue_url)
    named = _HOST.fullmatch(parts.hostname or "")
    region = named[1] if named else region
    schemes = {"https", "http"} if allow_http else {"https"}
    if parts.scheme not in schemes or not parts.netloc or parts.path.count("/") != 2 or not region:
        raise InvalidFields(
            {
                "SQS_URL": "expected a queue's URL: https://sqs.eu-west-1.amazonaws.com/123456789012/name"
            }
        )
    # The stubs type every service, but only those of SES and SNS are installed.
    client: Any = Session().client(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        "sqs",
        region_name=region,
        endpoint_url=f"{parts.scheme}://{parts.netloc}",
        config=Config(
            connect_timeout=3,
            read_timeout=wait_seconds + 10,
            # A repeated receive hides letters for a while and loses none; the rest is idempotent.
            retries={"mode": "standard", "total_max_attempts": 3},
        ),
    )
    return SqsDeadLetters(cast("SqsClient", client), queue_url, wait_seconds=wait_seconds)


def _asked(ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except ClientError as refusal:
        error = refusal.response.get("Error", {})
        raise Unavailable(
            f"SQS refused: {error.get('Code', 'no code')}. Check the queue's URL, and that these "
            "credentials may receive, delete, change visibility and get attributes there."
        ) from refusal
    except BotoCoreError as fault:
        raise Unavailable(f"SQS could not be asked: {type(fault).__name__}") from fault
