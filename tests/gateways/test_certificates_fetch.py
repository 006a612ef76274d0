"""Fetching a certificate from servers that mean no good (W3, W4)."""

import gzip
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from mail_service.errors import Unavailable
from mail_service.gateways.certificate_files import CertificateFetcher

PATH = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
OK = b"HTTP/1.1 200 OK\r\n"


class Server:
    """Speaks to one caller after another as ``behave`` says, byte for byte."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}{PATH}"
        self.requests: list[bytes] = []
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            self.requests.append(connection.recv(65536))
            with suppress(OSError):  # the caller went away
                self._behave(connection)

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
            assert not thread.is_alive()


@pytest.fixture
def serve():
    servers = []

    def start(behave: bytes | Callable[[socket.socket], None]) -> Server:
        act = behave if callable(behave) else lambda connection: connection.sendall(behave)
        servers.append(Server(act))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def whole(body: bytes, status: bytes = OK, extra: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body)
    return status + length + extra + b"Connection: close\r\n\r\n" + body


def test_a_small_file_is_fetched_whole(serve):
    server = serve(whole(b"x" * 16_384))
    assert CertificateFetcher()(server.url) == b"x" * 16_384
    assert server.requests[0].startswith(f"GET {PATH} HTTP/1.1\r\n".encode())


def test_a_chunked_file_is_fetched_whole(serve):
    chunks = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert CertificateFetcher()(serve(OK + chunks).url) == b"abcde"


REFUSED = {
    "not found": whole(b"", b"HTTP/1.1 404 Not Found\r\n"),
    "forbidden": whole(b"x", b"HTTP/1.1 403 Forbidden\r\n"),
    "broken": whole(b"x", b"HTTP/1.1 500 Oops\r\n"),
    "no content": whole(b"", b"HTTP/1.1 204 No Content\r\n"),
    "partial": whole(b"x", b"HTTP/1.1 206 Partial Content\r\n"),
    "one byte too many": whole(b"x" * 16_385),
    "huge by announcement": OK + b"Content-Length: 999999999999\r\n\r\n" + b"x" * 20_000,
    "cut short": OK + b"Content-Length: 100\r\nConnection: close\r\n\r\nshort",
    "cut in a chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "nothing": b"",
    "too many headers": OK + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n",
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED.keys())
def test_anything_but_a_whole_small_answer_of_status_200_is_unavailable(serve, answer):
    server = serve(answer)
    with pytest.raises(Unavailable):
        CertificateFetcher()(server.url)
    assert len(server.requests) == 1, "never repeated"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_w3_a_redirect_is_not_followed(serve, status):
    target = serve(whole(b"secret"))
    answer = whole(
        b"", b"HTTP/1.1 %d Moved\r\n" % status, b"Location: " + target.url.encode() + b"\r\n"
    )
    with pytest.raises(Unavailable, match=str(status)):
        CertificateFetcher()(serve(answer).url)
    assert target.requests == []


def test_w3_a_proxy_of_the_environment_is_not_used(serve, monkeypatch):
    proxy = serve(whole(b"from the proxy"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    assert CertificateFetcher()(serve(whole(b"from the server")).url) == b"from the server"
    assert proxy.requests == []


def test_w4_a_compressed_answer_is_not_blown_up(serve):
    packed = gzip.compress(b"x" * 1_000_000)
    server = serve(whole(packed, extra=b"Content-Encoding: gzip\r\n"))
    assert CertificateFetcher()(server.url) == packed


def endless(start: bytes, drop: bytes, pause: float) -> Callable[[socket.socket], None]:
    def behave(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(drop)
            time.sleep(pause)  # the attack itself, not a wait for luck

    return behave


def silent(connection: socket.socket) -> None:
    connection.settimeout(10)
    connection.recv(1)


SLOW = {
    "endless": endless(OK + b"\r\n", b"x" * 4096, 0),
    "trickling body": endless(OK + b"\r\n", b"x", 0.02),
    "trickling headers": endless(OK, b"X: y\r\n", 0.05),
    "trickling status": endless(b"", b"H", 0.02),
    "silent": silent,
}


@pytest.mark.parametrize("behave", SLOW.values(), ids=SLOW.keys())
def test_w4_a_slow_or_endless_server_costs_the_deadline_and_no_more(serve, behave):
    server = serve(behave)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        CertificateFetcher(deadline=0.4)(server.url)
    assert time.monotonic() - started < 0.8


def test_w4_more_fetches_than_allowed_are_refused_at_once_and_room_comes_back(serve):
    release = threading.Event()
    entered = threading.Semaphore(0)

    def wait(connection: socket.socket) -> None:
        entered.release()
        release.wait(10)
        connection.sendall(whole(b"late"))

    fetch = CertificateFetcher(at_once=2, deadline=8)
    server = serve(wait)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(fetch(server.url))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert entered.acquire(timeout=5)
    with pytest.raises(Unavailable, match="too many"):
        fetch(server.url)
    release.set()
    for thread in threads:
        thread.join()
    assert results == [b"late", b"late"]
    assert fetch(serve(whole(b"again")).url) == b"again"


def test_a_server_that_is_not_there_or_speaks_no_tls_is_unavailable(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unavailable):
        CertificateFetcher()(f"http://127.0.0.1:{port}/x.pem")
    with pytest.raises(Unavailable):
        CertificateFetcher()(serve(whole(b"x")).url.replace("http:", "https:"))
    with pytest.raises(Unavailable):
        CertificateFetcher()("https://name.invalid/x.pem")
