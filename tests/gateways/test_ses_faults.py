"""Failures of transport, made for real: which of them prove that nothing was sent.

The two that matter most look like harmless ones. botocore 1.44.8 raises ProxyConnectionError, and
SSLError with "wrong version number", also after SES has read the whole request.
"""

import socket
import ssl
import threading

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from mail_service.domain.outcomes import Accepted, Deferred, Held, HoldScope, Pace, Unknown
from mail_service.gateways.ses import SesMailer
from tests.gateways.test_ses_wire import (
    EMAIL,
    IMPATIENT,
    MESSAGE_ID,
    accept_mail,
    answer,
    clean_aws,
    mailer_for,
    read_request,
    reset,
    send_head,
    wire,
)

LOST = Unknown(error_class="connection_lost", error_code="ProxyConnectionError")
UNREACHED = "endpoint_unreachable"


@pytest.fixture(autouse=True)
def no_aws(monkeypatch):
    clean_aws(monkeypatch)


def held(error_class: str, code: str) -> Held:
    return Held(scope=HoldScope.ENDPOINT, error_class=error_class, error_code=code)


def over_tls(certificate, end, *, tunnel=False):
    """A script for a raw connection: handshake, read the whole request, then ``end`` it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    seen = threading.Event()

    def on_accept(peer: socket.socket) -> bool:
        if tunnel:
            read_request(peer)
            peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with context.wrap_socket(peer, server_side=True) as secure:
            if read_request(secure) is not None:
                seen.set()
            raw = socket.socket(fileno=secure.detach())
        end(raw)
        raw.close()
        return False

    return on_accept, seen


def stray_plain_bytes(raw: socket.socket) -> None:
    raw.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n" * 3)


# --- nothing was connected ------------------------------------------------------------------------


def test_a_refused_connection_holds_the_endpoint(closed_port):
    outcome = mailer_for(f"http://127.0.0.1:{closed_port}").send(EMAIL)
    assert outcome == held(UNREACHED, "EndpointConnectionError")


def test_a_name_that_does_not_resolve_holds_the_endpoint(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    outcome = mailer_for("https://email.eu-nowhere-1.example").send(EMAIL)
    assert outcome == held(UNREACHED, "EndpointConnectionError")


def test_a_connection_that_nobody_accepts_holds_the_endpoint():
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        # Fill the queue of the listener: Linux then drops what else knocks.
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        url = f"http://127.0.0.1:{address[1]}"
        outcome = mailer_for(url, seconds=IMPATIENT).send(EMAIL)
        for one in waiting:
            one.close()
    assert outcome == held(UNREACHED, "ConnectTimeoutError")


def test_a_certificate_nobody_vouches_for_holds_the_endpoint(certificate):
    with wire() as told:
        told.on_accept, seen = over_tls(certificate, lambda _: None)
        outcome = mailer_for(f"https://localhost:{told.port}").send(EMAIL)
    assert outcome == held("tls", "SSLError")
    assert not seen.is_set()


def test_a_certificate_for_another_host_holds_the_endpoint(certificate, monkeypatch):
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    monkeypatch.setenv("HTTPS_PROXY", "")
    with wire() as told:
        told.on_accept, seen = over_tls(certificate, lambda _: None, tunnel=True)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{told.port}")
        outcome = mailer_for("https://email.eu-west-1.example").send(EMAIL)
    assert outcome == held("tls", "SSLError")
    assert not seen.is_set()


def test_plain_http_on_the_tls_port_holds_the_endpoint():
    with wire() as told:

        def speak_http(peer: socket.socket) -> bool:
            peer.recv(1024)
            stray_plain_bytes(peer)
            return False

        told.on_accept = speak_http
        outcome = mailer_for(f"https://localhost:{told.port}").send(EMAIL)
    assert outcome == held("tls", "SSLError")


# --- the request may have left --------------------------------------------------------------------


@pytest.mark.parametrize("end", [stray_plain_bytes, reset, lambda raw: None])
@pytest.mark.parametrize("tunnel", [False, True])
def test_an_answer_lost_after_the_whole_request_over_tls_is_unknown(
    certificate, monkeypatch, end, tunnel
):
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    with wire() as told:
        told.on_accept, seen = over_tls(certificate, end, tunnel=tunnel)
        if tunnel:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{told.port}")
        outcome = mailer_for(f"https://localhost:{told.port}").send(EMAIL)
    assert seen.is_set()
    assert isinstance(outcome, Unknown)


# --- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_holds_the_endpoint(monkeypatch, scheme, closed_port):
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://127.0.0.1:{closed_port}")
    outcome = mailer_for(f"{scheme}://email.example").send(EMAIL)
    assert outcome == held(UNREACHED, "ProxyConnectionError")


def test_a_proxy_that_refuses_the_tunnel_holds_the_endpoint(monkeypatch):
    with wire() as told:
        told.do(answer(407, {"Proxy-Authenticate": "Basic"}, ""))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{told.port}")
        outcome = mailer_for("https://email.example").send(EMAIL)
    assert outcome == held(UNREACHED, "ProxyConnectionError")
    assert [request.line.split()[:2] for request in told.requests] == [
        ["CONNECT", "email.example:443"]
    ]


@pytest.mark.parametrize("end", [reset, lambda peer: peer.close()])
def test_an_answer_lost_behind_a_proxy_is_unknown_though_botocore_says_not_reached(
    monkeypatch, end
):
    with wire() as told:
        told.do(lambda peer, _: end(peer))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{told.port}")
        outcome = mailer_for("http://email.example").send(EMAIL)
    assert outcome == LOST
    assert len(told.requests) == 1


def test_a_mail_goes_through_the_proxy_that_the_environment_names(monkeypatch):
    with wire() as told:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{told.port}")
        outcome = mailer_for("http://email.example").send(EMAIL)
    assert outcome == Accepted(provider_message_id=MESSAGE_ID)
    assert told.requests[0].line.startswith("POST http://email.example/")


# --- connections that are kept --------------------------------------------------------------------


def test_two_mails_share_a_connection():
    with wire() as told:
        told.do(accept_mail(keep=True))
        mailer = mailer_for(f"http://127.0.0.1:{told.port}")
        outcomes = [mailer.send(EMAIL), mailer.send(EMAIL)]
    assert outcomes == [Accepted(provider_message_id=MESSAGE_ID)] * 2
    assert (told.connections, len(told.requests)) == (1, 2)


def test_a_connection_that_the_server_closed_while_idle_is_not_used_again():
    with wire() as told:
        closed = threading.Event()

        def answer_then_close(peer, request):
            accept_mail(keep=True)(peer, request)
            peer.close()
            closed.set()

        told.do(answer_then_close)
        mailer = mailer_for(f"http://127.0.0.1:{told.port}")
        outcomes = []
        for _ in range(2):
            closed.clear()
            outcomes.append(mailer.send(EMAIL))
            assert closed.wait(5)
    assert outcomes == [Accepted(provider_message_id=MESSAGE_ID)] * 2
    assert (told.connections, len(told.requests)) == (2, 2)


# --- answers that the library can't read ----------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, {"Content-Type": "application/json"}, "[]"),
        (200, {"Content-Type": "application/json"}, '{"MessageId": 12}'),
        (200, {"Content-Type": "application/json"}, '{"MessageId": ""}'),
        (200, {"Content-Type": "application/json"}, '{"MessageId": "a b"}'),
        (200, {"Content-Type": "application/json"}, '{"MessageId": "x\\r\\ny"}'),
        (200, {"Content-Type": "application/json"}, '{"MessageId": {"a": 1}}'),
        (202, {"Content-Type": "application/json"}, f'{{"MessageId": "{MESSAGE_ID}"}}'),
        (204, {}, ""),
        (400, {"Content-Type": "application/json"}, "[]"),
        (500, {"Content-Type": "application/json", "x-amzn-errortype": "MessageRejected"}, "{}"),
        (503, {"Content-Type": "application/json", "x-amzn-errortype": "Throttling"}, "{}"),
        (408, {"Content-Type": "application/json", "x-amzn-errortype": "Throttling"}, "{}"),
        (600, {"Content-Type": "application/json", "x-amzn-errortype": "Throttling"}, "{}"),
    ],
)
def test_an_answer_that_proves_nothing_is_unknown(status, headers, body):
    with wire() as told:
        told.do(answer(status, headers, body))
        assert isinstance(mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL), Unknown)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (403, {"Content-Type": "text/html"}, "<html>Daily message quota exceeded</html>"),
        (403, {"Content-Type": "application/json"}, '{"message": "blocked by policy"}'),
        (404, {"Content-Type": "application/json"}, ""),
        (400, {"Content-Type": "text/html"}, '{"__type": "MessageRejected", "message": "x"}'),
        (407, {}, ""),
        (300, {"Content-Type": "application/json"}, f'{{"MessageId": "{MESSAGE_ID}"}}'),
        (307, {"Location": "/elsewhere"}, ""),
    ],
)
def test_a_refusal_that_is_not_of_ses_holds_the_endpoint(status, headers, body):
    with wire() as told:
        told.do(answer(status, headers, body))
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == held("unexpected_answer", outcome.error_code)
    assert len(told.requests) == 1


def test_a_429_without_the_form_of_ses_is_still_a_rate_limit():
    with wire() as told:
        told.do(answer(429, {"Content-Type": "text/html"}, "slow down"))
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == Deferred(error_class="throttled", error_code="429", pace=Pace.THROTTLED)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (
            {"Content-Type": "application/x-amz-json-1.1"},
            '{"__type": "com.amazonaws.ses#SomethingNew", "message": "x"}',
        ),
        ({"Content-Type": "application/json"}, '{"code": "SomethingNew"}'),
        ({"Content-Type": "text/plain", "x-amzn-errortype": "SomethingNew:http://x/"}, "{}"),
        ({"X-Amzn-ErrorType": "SomethingNew"}, ""),
    ],
)
def test_an_error_type_in_the_header_or_in_a_json_body_is_an_answer_of_ses(headers, body):
    with wire() as told:
        told.do(answer(400, headers, body))
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == Deferred(
        error_class="unknown_refusal", error_code="SomethingNew", pace=Pace.SLOW, alarm=True
    )


def test_a_code_that_could_hold_an_address_is_not_kept():
    with wire() as told:
        body = '{"code": "no such user ada@example.org", "message": "x"}'
        told.do(answer(400, {"Content-Type": "application/json"}, body))
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert "ada" not in repr(outcome)


def test_a_head_without_an_end_is_unknown_after_the_read_timeout():
    with wire() as told:

        def half_a_head(peer, _):
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Type: appl")
            told.released.wait(5)

        told.do(half_a_head)
        url = f"http://127.0.0.1:{told.port}"
        outcome = mailer_for(url, seconds=IMPATIENT).send(EMAIL)
    assert outcome == Unknown(error_class="read_timeout", error_code="ReadTimeoutError")


def test_a_refusal_whose_body_never_comes_is_unknown():
    with wire() as told:

        def head_only(peer, _):
            send_head(peer, 400, {"Content-Type": "application/json", "Content-Length": "40"})
            told.released.wait(5)

        told.do(head_only)
        url = f"http://127.0.0.1:{told.port}"
        assert isinstance(mailer_for(url, seconds=IMPATIENT).send(EMAIL), Unknown)


# --- what is raised by others ---------------------------------------------------------------------


class Raising:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def send_email(self, **_: object) -> dict:
        raise self.error


class Stranger(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Odd(ClientError):
    def __init__(self) -> None:
        """Set nothing that ClientError promises."""


@pytest.mark.parametrize("error", [Stranger(), Odd(), ConnectionResetError(104), MemoryError()])
def test_an_exception_of_an_unknown_kind_is_unknown(error):
    outcome = SesMailer(Raising(error), None).send(EMAIL)
    assert outcome == Unknown(error_class="unexpected_error", error_code=type(error).__name__)


@pytest.mark.parametrize(
    "answered", [None, "", [], {}, {"MessageId": "x"}, {"ResponseMetadata": 1}]
)
def test_a_return_value_without_a_status_is_unknown(answered):
    class Client:
        def send_email(self, **_: object) -> object:
            return answered

    assert isinstance(SesMailer(Client(), None).send(EMAIL), Unknown)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_a_stop_of_the_process_is_not_swallowed(error):
    with pytest.raises(type(error)):
        SesMailer(Raising(error), None).send(EMAIL)


@pytest.mark.parametrize("status", [400, 403, 500])
def test_an_error_of_another_service_while_fetching_credentials_holds_the_account(status):
    said = {
        "Error": {"Code": "AccessDenied", "Message": "not authorized to perform sts:AssumeRole"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    outcome = SesMailer(Raising(ClientError(said, "AssumeRole")), None).send(EMAIL)
    assert outcome == Held(
        scope=HoldScope.ACCOUNT, error_class="credentials", error_code="AccessDenied"
    )


def test_a_failure_to_connect_that_was_wrapped_by_others_is_still_one():
    error = EndpointConnectionError(endpoint_url="https://email.example")
    try:
        try:
            raise OSError("no route")
        except OSError as cause:
            raise error from cause
    except EndpointConnectionError:
        pass
    assert SesMailer(Raising(error), None).send(EMAIL) == held(UNREACHED, "EndpointConnectionError")


def test_no_credentials_in_the_environment_hold_the_account_and_send_nothing(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with wire() as told:
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == Held(
        scope=HoldScope.ACCOUNT, error_class="credentials", error_code="NoCredentialsError"
    )
    assert told.connections == 0
