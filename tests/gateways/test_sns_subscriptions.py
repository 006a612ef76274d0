"""Confirming a subscription through the API."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, ParamValidationError, ReadTimeoutError
from botocore.stub import Stubber

from mail_service.errors import Unavailable
from mail_service.gateways.subscriptions import SubscriptionConfirmer, sns_clients
from tests.signing import TOPIC

TOKEN = "2336412f37fb687f5d51e6e241d09c80"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")


@pytest.fixture
def stubbed():
    client = boto3.client("sns", region_name="eu-west-1")
    with Stubber(client) as stub:
        yield client, stub


class Server(ThreadingHTTPServer):
    """Answers every call the same way and keeps what was asked."""

    def __init__(self, status: int, body: str) -> None:
        self.status, self.body = status, body
        self.forms: list[dict[str, list[str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        form = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.forms.append(parse_qs(form))  # type: ignore
        self.send_response(self.server.status)  # type: ignore
        self.end_headers()
        self.wfile.write(self.server.body.encode())  # type: ignore

    def log_message(self, format, *args):
        pass


def serve(status: int, body: str) -> Iterator[tuple[Server, str]]:
    server = Server(status, body)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def confirming():
    yield from serve(
        200,
        "<ConfirmSubscriptionResponse xmlns='http://sns.amazonaws.com/doc/2010-03-31/'>"
        f"<ConfirmSubscriptionResult><SubscriptionArn>{SUBSCRIPTION}</SubscriptionArn>"
        "</ConfirmSubscriptionResult></ConfirmSubscriptionResponse>",
    )


@pytest.fixture
def failing():
    yield from serve(
        500, "<ErrorResponse><Error><Code>InternalError</Code></Error></ErrorResponse>"
    )


def test_a_subscription_is_confirmed_with_authenticated_unsubscribe_in_the_region_of_its_topic(
    confirming,
):
    server, url = confirming
    assert SubscriptionConfirmer(sns_clients(endpoint_url=url))(TOPIC, TOKEN) == SUBSCRIPTION
    [form] = server.forms
    assert form["Action"] == ["ConfirmSubscription"]
    assert form["TopicArn"] == [TOPIC]
    assert form["Token"] == [TOKEN]
    assert form["AuthenticateOnUnsubscribe"] == ["true"]


def test_a_failing_sns_is_asked_once_whatever_the_environment_says(failing):
    server, url = failing
    with pytest.raises(Unavailable, match="InternalError"):
        SubscriptionConfirmer(sns_clients(endpoint_url=url))(TOPIC, TOKEN)
    assert len(server.forms) == 1


def test_one_client_is_built_for_each_region_and_its_time_outs_are_short():
    built = []
    real = sns_clients(endpoint_url="http://127.0.0.1:1")

    def client_for(region):
        built.append(region)
        return real(region)

    confirm = SubscriptionConfirmer(client_for)
    for topic in (TOPIC, TOPIC, TOPIC.replace("eu-west-1", "us-east-1")):
        with pytest.raises(Unavailable, match="EndpointConnectionError"):
            confirm(topic, TOKEN)
    assert built == ["eu-west-1", "us-east-1"]
    config = real("eu-west-1").meta.config
    assert (config.connect_timeout, config.read_timeout) == (2, 5)


def test_a_refusal_of_sns_is_told_by_its_code_alone(stubbed):
    client, stub = stubbed
    stub.add_client_error("confirm_subscription", "InvalidParameter", f"Token {TOKEN} expired")
    with pytest.raises(Unavailable, match="InvalidParameter") as refusal:
        SubscriptionConfirmer(lambda _: client)(TOPIC, TOKEN)
    assert TOKEN not in str(refusal.value)
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize(
    "fault",
    [
        EndpointConnectionError(endpoint_url="https://example.com"),
        ReadTimeoutError(endpoint_url="https://example.com"),
        ParamValidationError(report=TOKEN),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_call_that_fails_is_unavailable_and_never_tells_the_token(fault):
    class Client:
        def confirm_subscription(self, **_: str):
            raise fault

    with pytest.raises(Unavailable, match=type(fault).__name__) as refusal:
        SubscriptionConfirmer(lambda _: Client())(TOPIC, TOKEN)  # type: ignore
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize("answer", [{}, {"SubscriptionArn": ""}, {"SubscriptionArn": "pending"}])
def test_an_answer_without_an_arn_is_no_confirmation(stubbed, answer):
    client, stub = stubbed
    stub.add_response("confirm_subscription", answer)
    with pytest.raises(Unavailable, match="without"):
        SubscriptionConfirmer(lambda _: client)(TOPIC, TOKEN)
