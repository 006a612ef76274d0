"""Saying yes to SNS, through its API and never through an address that came with a message."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from mail_service.errors import Unavailable

if TYPE_CHECKING:
    from mypy_boto3_sns.client import SNSClient


class SubscriptionConfirmer:
    """Confirms subscriptions of allowed topics (:class:`mail_service.ports.ConfirmSubscription`).

    A subscription lives in its topic's region, whatever region we send mail from, so there is one
    client for each region, built at the first need.
    """

    def __init__(self, client_for: Callable[[str], "SNSClient"]) -> None:
        self._client_for = client_for
        self._clients: dict[str, SNSClient] = {}
        self._lock = Lock()

    def __call__(self, topic_arn: str, token: str) -> str:
        """Confirm once and give the subscription's ARN; Unavailable when SNS did not confirm.

        ``AuthenticateOnUnsubscribe`` makes the unsubscribe address in later messages worthless to
        whoever sees one (SNS API reference, ConfirmSubscription).
        """
        try:
            answer = self._client(topic_arn).confirm_subscription(
                TopicArn=topic_arn, Token=token, AuthenticateOnUnsubscribe="true"
            )
        # The causes are cut off: botocore quotes parameters in some of its errors, and one of them
        # is the token.
        except ClientError as refusal:
            code = refusal.response.get("Error", {}).get("Code", "no code")
            raise Unavailable(f"SNS did not confirm the subscription: {code}") from None
        except BotoCoreError as fault:
            raise Unavailable(
                f"SNS could not be asked to confirm: {type(fault).__name__}"
            ) from None
        arn = answer.get("SubscriptionArn") or ""
        if not arn.startswith("arn:"):
            raise Unavailable("SNS answered without a subscription's ARN")
        return arn

    def _client(self, topic_arn: str) -> "SNSClient":
        parts = topic_arn.split(":")
        region = parts[3] if len(parts) == 6 else ""
        with self._lock:  # building a client is not safe in two threads at once
            if region not in self._clients:
                self._clients[region] = self._client_for(region)
            return self._clients[region]


def sns_clients(*, endpoint_url: str | None = None) -> Callable[[str], "SNSClient"]:
    """Give what builds a client for a region: one try, short time-outs.

    Both are set here so that no environment changes them: the sweep repeats a confirmation that
    failed, so the client must not.
    """
    session = Session()

    def build(region: str) -> "SNSClient":
        # The stubs type every service, but only those of SES and SNS are installed.
        return session.client(  # pyright: ignore[reportUnknownMemberType]
            "sns",
            region_name=region,
            endpoint_url=endpoint_url,
            config=Config(
                connect_timeout=2,
                read_timeout=5,
                retries={"mode": "standard", "total_max_attempts": 1},
                max_pool_connections=2,
            ),
        )

    return build
