from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from sandbox_receiver import Receiver, simple_mail

from mail_service.sandbox import Sandbox, Signer

_session = boto3.Session(
    aws_access_key_id="AKIASANDBOX", aws_secret_access_key="sandbox", region_name="eu-west-1"
)


@pytest.fixture(scope="session")
def signer() -> Signer:
    return Signer.generate()


@pytest.fixture
def sandbox(signer: Signer) -> Iterator[Sandbox]:
    with Sandbox(signer=signer) as running:
        running.knobs(delivery_retry_seconds=0.02, slow_seconds=0.2)
        yield running


@pytest.fixture
def client() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(service: str, url: str, read_timeout: float = 20) -> Any:
        config = Config(
            retries={"total_max_attempts": 1}, connect_timeout=20, read_timeout=read_timeout
        )
        made.append(_session.client(service, endpoint_url=url, config=config))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def ses(sandbox: Sandbox, client: Callable[..., Any]) -> Any:
    return client("sesv2", sandbox.url)


@pytest.fixture
def sns(sandbox: Sandbox, client: Callable[..., Any]) -> Any:
    return client("sns", sandbox.url)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.close()


@pytest.fixture
def subscribed(sandbox: Sandbox, receiver: Receiver) -> Receiver:
    """A receiver that gets the sandbox's events without having to confirm."""
    sandbox.subscribe(receiver.url, confirm=False)
    return receiver


@pytest.fixture
def send(ses: Any) -> Callable[..., str]:
    """Send a plain mail with a tag and a configuration set; any parameter may be replaced."""

    def send_it(*recipients: str, **changes: Any) -> str:
        params = simple_mail(*recipients) | changes
        return ses.send_email(**{k: v for k, v in params.items() if v is not None})["MessageId"]

    return send_it
