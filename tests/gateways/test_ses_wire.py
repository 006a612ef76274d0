"""A real local server that answers as told, and the real client pointed at it."""

import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from mail_service.domain.outcomes import Accepted
from mail_service.gateways.ses import SesMailer, ses_client
from mail_service.ports import OutgoingEmail

MESSAGE_ID = "0102019a00000000-0000aaaa-1111-4222-8333-444455556666-000000"
EMAIL = OutgoingEmail(
    request_tag="0b7d1f6e-0000-4000-8000-000000000001",
    sender="Example <hello@example.com>",
    subject="Hello",
    to=("ada@example.org",),
    text="Hello",
)


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)


Script = Callable[[socket.socket, Request], None]


@dataclass
class Wire:
    """What the server does next, and what it saw."""

    port: int
    on_request: Script
    on_accept: Callable[[socket.socket], bool] = lambda _: True
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def do(self, on_request: Script) -> None:
        self.on_request = on_request
        self.on_accept = lambda _: True
        self.requests.clear()
        self.connections = 0


def answer(status: int, headers: dict[str, str], body: str, *, keep: bool = False) -> Script:
    def script(peer: socket.socket, _: Request) -> None:
        payload = body.encode()
        fields = {"Content-Length": str(len(payload)), **headers}
        if not keep:
            fields["Connection"] = "close"
        send_head(peer, status, fields)
        peer.sendall(payload)
        if not keep:
            peer.close()

    return script


def accept_mail(*, keep: bool = False) -> Script:
    body = json.dumps({"MessageId": MESSAGE_ID})
    return answer(200, {"Content-Type": "application/json"}, body, keep=keep)


def send_head(peer: socket.socket, status: int, fields: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'x')}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    peer.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def reset(peer: socket.socket) -> None:
    """Close with a RST instead of a FIN."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def read_request(peer: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = peer.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (text.partition(":") for text in fields)}
    while len(body) < int(headers.get("content-length", "0")):
        more = peer.recv(65536)
        if not more:
            return None
        body += more
    return Request(line, headers, body)


@contextlib.contextmanager
def wire() -> Iterator[Wire]:
    """Serve until the end of the block; every thread has ended then."""
    listener = socket.create_server(("127.0.0.1", 0))
    told = Wire(listener.getsockname()[1], accept_mail())
    peers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def talk(peer: socket.socket) -> None:
        # A closed or reset peer ends the talk: that is what many scripts are for.
        with contextlib.suppress(OSError, ValueError):
            while peer.fileno() != -1 and (request := read_request(peer)):
                told.requests.append(request)
                told.on_request(peer, request)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                told.connections += 1
                peers.append(peer)
                if told.on_accept(peer):
                    thread = threading.Thread(target=talk, args=(peer,), daemon=True)
                    threads.append(thread)
                    thread.start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield told
    finally:
        told.released.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(5)
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()
        for thread in threads:
            thread.join(5)


def clean_aws(patch: pytest.MonkeyPatch, **more: str) -> None:
    """Take this machine's AWS and proxy settings away, and give credentials of no account."""
    import os

    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            patch.delenv(name)
    settings = {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_CONFIG_FILE": "/nonexistent/config",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
        "AWS_EC2_METADATA_DISABLED": "true",
        **more,
    }
    for name, value in settings.items():
        patch.setenv(name, value)


# Long enough for an answer that comes, however busy the machine; short enough to see that none does.
PATIENT, IMPATIENT = 20.0, 0.3


def mailer_for(
    url: str, configuration_set: str | None = None, *, seconds: float = PATIENT
) -> SesMailer:
    return SesMailer(ses_client("eu-west-1", url, seconds, seconds, 4), configuration_set)


def test_the_server_of_these_tests_takes_a_mail_of_the_real_client(monkeypatch):
    clean_aws(monkeypatch)
    with wire() as told:
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert outcome == Accepted(provider_message_id=MESSAGE_ID)
    assert [request.line for request in told.requests] == [
        "POST /v2/email/outbound-emails HTTP/1.1"
    ]
