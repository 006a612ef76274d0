"""Our way of carrying a call: it means what boto3's own way means, or is more careful.

A real server, the real client. Where a test is about faults that prove nothing was sent, see
test_ses_faults.py; all of that and every case of cases/errors.json goes this way too.
"""

import contextlib
import json
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from boto3.session import Session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.parsers import ResponseParserFactory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psutil import Process

from mail_service.domain.outcomes import Accepted, Held, HoldScope, Refused, Unknown
from mail_service.errors import SettingsError
from mail_service.gateways import transport
from mail_service.gateways.http_answer import MAX_ANSWER
from mail_service.gateways.ses import SesMailer, ses_client
from tests.gateways.test_ses_wire import (
    EMAIL,
    IMPATIENT,
    MESSAGE_ID,
    PATIENT,
    accept_mail,
    clean_aws,
    mailer_for,
    read_request,
    reset,
    wire,
)

ACCEPTED = Accepted(provider_message_id=MESSAGE_ID)
BODY = json.dumps({"MessageId": MESSAGE_ID}).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.fixture(autouse=True)
def no_aws(monkeypatch):
    clean_aws(monkeypatch)


def stock_client(url: str, **more: object):
    """boto3 as it comes, with the settings of our own client."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=PATIENT,
        read_timeout=PATIENT,
        parameter_validation=False,
        **more,
    )
    return Session(region_name="eu-west-1").client("sesv2", endpoint_url=url, config=config)


def says(*pieces: bytes, end=None):
    """A server that answers with these bytes, then ends the connection so, or keeps it."""

    def script(peer, _):
        for piece in pieces:
            peer.sendall(piece)
        if end:
            end(peer)

    return script


def close(peer) -> None:
    peer.close()


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        [WHOLE],
        [CHUNKED],
        [WHOLE[i : i + 1] for i in range(len(WHOLE))],
        [CHUNKED[i : i + 1] for i in range(len(CHUNKED))],
        [b"HTTP/1.1 100 Continue\r\n\r\n", WHOLE],
        [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 9\r\n\r\n" + WHOLE],
        [WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0")],
        [WHOLE.replace(b"Content-Type", b"CONTENT-TYPE")],
        [WHOLE.replace(b"\r\n\r\n", b"\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")],
    ],
)
def test_an_acceptance_is_one_in_every_form_that_http_gives_it(pieces):
    with wire() as told:
        told.do(says(*pieces))
        assert mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL) == ACCEPTED
        assert len(told.requests) == 1


def test_an_answer_that_states_no_length_ends_with_the_connection():
    with wire() as told:
        told.do(says(HEAD + b"\r\n" + BODY, end=close))
        assert mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL) == ACCEPTED


@pytest.mark.parametrize(
    ("said", "end"),
    [
        (HEAD + b"\r\n" + BODY, reset),
        (HEAD + b"Content-Length: %d\r\n\r\n" % (len(BODY) + 1) + BODY, close),
        (CHUNKED[:-5], close),
        (HEAD, close),
        (b"", close),
        (b"HTTP/1.1 100 Continue\r\n\r\n", close),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", close),
    ],
)
def test_an_answer_that_is_not_whole_proves_nothing(said, end):
    with wire() as told:
        told.do(says(said, end=end))
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == Unknown(error_class="connection_lost", error_code="ConnectionClosedError")


def test_an_answer_without_end_is_given_up_after_a_megabyte():
    written = 0
    with wire() as told:

        def pour(peer, _):
            nonlocal written
            peer.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
            while True:
                peer.sendall(b" " * 65536)
                written += 65536

        told.do(pour)
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == Unknown(error_class="connection_lost", error_code="ConnectionClosedError")
    # What lay in the buffers of the two sockets is all that comes on top.
    assert written < 50 * MAX_ANSWER


def test_an_answer_that_drips_is_given_up_at_the_read_timeout_of_the_whole():
    given_up = threading.Event()
    with wire() as told:

        def drip(peer, _):
            peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
            try:
                # Never a pause as long as the time-out of one read.
                while not told.released.wait(0.05):
                    peer.sendall(b" ")
            except OSError:
                given_up.set()

        told.do(drip)
        url = f"http://127.0.0.1:{told.port}"
        outcome = mailer_for(url, seconds=IMPATIENT).send(EMAIL)
        assert outcome == Unknown(error_class="read_timeout", error_code="ReadTimeoutError")
        assert given_up.wait(5)


# --- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WHOLE + b"more",
        WHOLE + WHOLE,
        WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"more",
        CHUNKED + b"HTTP/1.1 408 Request Timeout\r\n\r\n",
    ],
)
def test_a_connection_of_which_nothing_is_certain_is_not_used_again(said):
    with wire() as told:
        told.do(says(said))
        mailer = mailer_for(f"http://127.0.0.1:{told.port}")
        assert [mailer.send(EMAIL), mailer.send(EMAIL)] == [ACCEPTED, ACCEPTED]
        assert (told.connections, len(told.requests)) == (2, 2)


@pytest.mark.parametrize("status", [201, 301, 400, 408, 429, 500, 503])
def test_a_connection_is_kept_after_an_acceptance_alone(status):
    """Another answer may be of the connection: the next call would read the one to this call."""
    with wire() as told:
        told.do(says(b"HTTP/1.1 %d Some Reason\r\nContent-Length: 0\r\n\r\n" % status))
        mailer = mailer_for(f"http://127.0.0.1:{told.port}")
        mailer.send(EMAIL)
        told.on_request = says(WHOLE)
        assert mailer.send(EMAIL) == ACCEPTED
        assert (told.connections, len(told.requests)) == (2, 2)


def test_bytes_that_come_while_a_connection_is_idle_are_nobodys_answer():
    came = threading.Event()
    with wire() as told:

        def answer_twice(peer, request):
            if len(told.requests) > 1:
                accept_mail(keep=True)(peer, request)
                return
            accept_mail(keep=True)(peer, request)
            assert outcome_known.wait(5)
            peer.sendall(WHOLE.replace(MESSAGE_ID.encode(), b"X" * len(MESSAGE_ID)))
            came.set()

        outcome_known = threading.Event()
        told.do(answer_twice)
        mailer = mailer_for(f"http://127.0.0.1:{told.port}")
        assert mailer.send(EMAIL) == ACCEPTED
        outcome_known.set()
        assert came.wait(5)
        assert mailer.send(EMAIL) == ACCEPTED
        assert told.connections == 2


def test_a_connection_that_was_idle_for_too_long_is_not_used_again():
    with wire() as told:
        told.do(accept_mail(keep=True))
        client = stock_client(f"http://127.0.0.1:{told.port}")
        transport.install(client, ResponseParserFactory(), None, PATIENT, PATIENT, idle_seconds=0)
        mailer = SesMailer(client, None)
        assert [mailer.send(EMAIL), mailer.send(EMAIL)] == [ACCEPTED, ACCEPTED]
        assert (told.connections, len(told.requests)) == (2, 2)


def test_calls_at_once_get_each_its_own_answer_and_a_connection_for_each_at_most():
    def echo(peer, request):
        tag = request.json["EmailTags"][0]["Value"]
        body = json.dumps({"MessageId": f"id-{tag}"}).encode()
        peer.sendall(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    emails = [replace(EMAIL, request_tag=f"tag-{number}") for number in range(200)]
    with wire() as told, ThreadPoolExecutor(8) as threads:
        told.do(echo)
        url = f"http://127.0.0.1:{told.port}"
        mailer = SesMailer(ses_client("eu-west-1", url, PATIENT, PATIENT, 8), None)
        outcomes = list(threads.map(mailer.send, emails))
        assert outcomes == [
            Accepted(provider_message_id=f"id-{email.request_tag}") for email in emails
        ]
        assert told.connections <= 8


def test_mail_goes_over_tls_to_the_host_that_was_asked_for_and_the_connection_is_kept(
    certificate, monkeypatch
):
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    asked: list[str] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    requests = []
    with wire() as told:

        def on_accept(peer):
            with context.wrap_socket(peer, server_side=True) as secure:
                while request := read_request(secure):
                    requests.append(request)
                    secure.sendall(WHOLE)
            return False

        told.on_accept = on_accept
        mailer = mailer_for(f"https://localhost:{told.port}")
        outcomes = [mailer.send(EMAIL) for _ in range(2)]
        port = told.port
        del mailer
    assert outcomes == [ACCEPTED, ACCEPTED]
    assert asked == ["localhost"]
    assert [request.headers["host"] for request in requests] == [f"localhost:{port}"] * 2


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_bundle_of_certificates_that_is_none_is_named_when_the_client_is_built(
    content, tmp_path, monkeypatch
):
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_bytes(content)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    with pytest.raises(SettingsError, match="AWS_CA_BUNDLE"):
        ses_client("eu-west-1", "https://localhost", 1, 1, 1)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://localhost",
        "//localhost",
        "http://",
        "http://localhost:x",
        "http://a:99999",
        "http://localhost/a b",
        "http://localhost/?a=b",
        "http://localhost/#a",
        "http://localhost\r\n/",
        "http://localhost/\u00e4",
    ],
)
def test_an_endpoint_that_is_no_address_is_named_when_the_client_is_built(address):
    with pytest.raises(SettingsError, match="AWS_"):
        ses_client("eu-west-1", address, 1, 1, 1)


def test_connections_that_served_a_burst_are_closed_once_they_were_idle_for_too_long():
    together = threading.Barrier(4)

    def wait_for_all(peer, request):
        together.wait(5)
        accept_mail(keep=True)(peer, request)

    with wire() as told, ThreadPoolExecutor(4) as threads:
        told.do(wait_for_all)
        client = stock_client(f"http://127.0.0.1:{told.port}")
        transport.install(client, ResponseParserFactory(), None, PATIENT, PATIENT, idle_seconds=0)
        mailer = SesMailer(client, None)
        assert set(threads.map(mailer.send, [EMAIL] * 4)) == {ACCEPTED}
        ours = [
            one for one in Process().net_connections() if one.raddr and one.raddr.port == told.port
        ]
    assert told.connections == 4
    assert ours == []


# --- making a connection --------------------------------------------------------------------------


def hear_hello(peer) -> None:
    peer.recv(65536)


@pytest.mark.parametrize(
    "end",
    [
        lambda peer: (hear_hello(peer), peer.close()),
        lambda peer: (hear_hello(peer), reset(peer)),
        lambda peer: (
            hear_hello(peer),
            peer.sendall(b"\x15\x03\x03\x00\x02\x02\x28"),
            peer.close(),
        ),
        lambda peer: (
            hear_hello(peer),
            peer.sendall(b"\x15\x03\x03\x00\x02\x02\x46"),
            peer.close(),
        ),
        lambda peer: (hear_hello(peer), peer.sendall(b"\x00" * 64), peer.close()),
        lambda peer: peer.close(),
    ],
    ids=["closed", "reset", "alert 40", "alert 70", "no TLS", "closed at once"],
)
def test_a_handshake_that_fails_in_any_way_proves_that_nothing_left(end):
    with wire() as told:

        def on_accept(peer):
            end(peer)
            return False

        told.on_accept = on_accept
        outcome = mailer_for(f"https://localhost:{told.port}").send(EMAIL)
    assert isinstance(outcome, Held)
    assert outcome.scope is HoldScope.ENDPOINT


def test_connecting_and_the_handshake_share_one_time(certificate):
    with wire() as told:

        def drip(peer):
            # A record that never ends: each byte is one more reason to wait.
            with contextlib.suppress(OSError):
                peer.sendall(b"\x16\x03\x03\x3f\xff")
                while not told.released.wait(0.05):
                    peer.sendall(b"\x00")
            return False

        told.on_accept = drip
        url = f"https://localhost:{told.port}"
        outcome = mailer_for(url, seconds=IMPATIENT).send(EMAIL)
    assert outcome == Held(
        scope=HoldScope.ENDPOINT,
        error_class="endpoint_unreachable",
        error_code="ConnectTimeoutError",
    )


def test_an_address_that_swallows_packets_leaves_time_for_the_next(monkeypatch):
    with wire() as told, socket.create_server(("127.0.0.1", 0), backlog=1) as full:
        # Fill the queue of the listener: Linux then drops what else knocks.
        knocking = [socket.socket() for _ in range(8)]
        for one in knocking:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        found = [(*kind, full.getsockname()), (*kind, ("127.0.0.1", told.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        # Half of the time to connect is the first address's.
        client = ses_client("eu-west-1", "http://email.example", 4, PATIENT, 4)
        outcome = SesMailer(client, None).send(EMAIL)
        for one in knocking:
            one.close()
    assert outcome == ACCEPTED


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"])
@pytest.mark.parametrize(
    "pasted",
    ["key\n", "key\r", "key\r\nHost: elsewhere.example", "key\udcff", "key\x01", "key\x7f"],
)
def test_a_credential_that_no_header_can_hold_writes_nothing_and_holds_the_account(
    name, pasted, monkeypatch
):
    monkeypatch.setenv(name, pasted)
    with wire() as told:
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
        assert told.connections == 0
    assert outcome == Held(
        scope=HoldScope.ACCOUNT, error_class="credentials", error_code="InvalidConfigError"
    )


def test_a_call_that_is_signed_in_another_way_is_left_to_boto3():
    with wire() as told:
        told.do(accept_mail(keep=True))
        client = stock_client(f"http://127.0.0.1:{told.port}", signature_version=UNSIGNED)
        transport.install(client, ResponseParserFactory(), None, PATIENT, PATIENT)
        assert SesMailer(client, None).send(EMAIL) == ACCEPTED
        assert "authorization" not in told.requests[0].headers


def test_the_request_is_the_one_that_boto3_writes_itself():
    seen = []
    for own in (False, True):
        with wire() as told:
            url = f"http://127.0.0.1:{told.port}/a%20b//c/../d"
            client = stock_client(url)
            if own:
                transport.install(client, ResponseParserFactory(), None, PATIENT, PATIENT)
            assert SesMailer(client, "set").send(EMAIL) == ACCEPTED
            (request,) = told.requests
            headers = request.headers
            # These differ from call to call. tests/gateways/test_signature.py reads the signature.
            for changing in ("authorization", "x-amz-date"):
                assert headers.pop(changing)
            # For AWS's statistics, and of retries, of which there are none.
            for telling in ("amz-sdk-invocation-id", "amz-sdk-request"):
                assert own or headers.pop(telling)
            headers["user-agent"] = headers["user-agent"].partition(" m/")[0]
            headers["host"] = headers["host"].replace(str(told.port), "PORT")
            seen.append((request.line, headers, request.body))
    stock, ours = seen
    assert ours == stock


# --- the same as boto3's own way ------------------------------------------------------------------

STATUSES = [200, 201, 204, 301, 400, 403, 404, 408, 413, 429, 500, 503]
NAMES = [b"Content-Type: application/json", b"x-amzn-ErrorType: MessageRejected", b"X-A: \xe9"]
BODIES = [
    BODY,
    b"",
    b"{}",
    b"[]",
    b'{"message": "x"}',
    b'{"__type": "MessageRejected"}',
    b"<html>",
    b"\xff\x00",
]


@st.composite
def spoken(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """An answer's bytes, and where they are cut into pieces."""
    status = draw(st.sampled_from(STATUSES))
    body = b"" if status == 204 else draw(st.sampled_from(BODIES))
    lines = [b"HTTP/1.1 %d Some Reason" % status]
    lines += draw(st.lists(st.sampled_from(NAMES), unique=True))
    if status != 204 and draw(st.booleans()):
        lines.append(b"Transfer-Encoding: chunked")
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    else:
        lines.append(b"Content-Length: %d" % len(body))
    said = b"\r\n".join([*lines, b"", body])
    return said, sorted(draw(st.sets(st.integers(1, len(said) - 1), max_size=4)))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(spoken())
def test_an_answer_means_what_it_means_when_boto3_carries_it(answer):
    said, cuts = answer
    pieces = [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    outcomes = []
    with wire() as told:
        told.do(says(*pieces, end=close))
        url = f"http://127.0.0.1:{told.port}"
        for mailer in (SesMailer(stock_client(url), None), mailer_for(url)):
            outcomes.append(mailer.send(EMAIL))
    stock, ours = outcomes
    assert ours == stock


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=300), st.sampled_from([b"", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", HEAD]))
def test_bytes_that_are_no_answer_are_neither_an_acceptance_nor_a_refusal(junk, start):
    with wire() as told:
        told.do(says(start + junk, end=close))
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert not isinstance(outcome, Accepted | Refused)
