"""Fetching a certificate from servers that mean no good (W3, W4)."""

import gzip
import socket
import threading
import time

import pytest

from mail_service.errors import Unavailable
from mail_service.gateways.certificate_files import CertificateFetcher
from mail_service.gateways.certificates import NotAsked
from tests.origin import OK, PATH, SLOW, WRONG, moved, origins, whole


@pytest.fixture
def serve():
    with origins() as start:
        yield start


def test_a_small_file_is_fetched_whole(serve):
    server = serve(whole(b"x" * 16_384))
    assert CertificateFetcher()(server.url) == b"x" * 16_384
    assert server.requests[0].startswith(f"GET {PATH} HTTP/1.1\r\n".encode())


def test_a_chunked_file_is_fetched_whole(serve):
    chunks = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert CertificateFetcher()(serve(OK + chunks).url) == b"abcde"


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG.keys())
def test_anything_but_a_whole_small_answer_of_status_200_is_unavailable(serve, answer):
    server = serve(answer)
    with pytest.raises(Unavailable):
        CertificateFetcher()(server.url)
    assert len(server.requests) == 1, "never repeated"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_w3_a_redirect_is_not_followed(serve, status):
    target = serve(whole(b"secret"))
    with pytest.raises(Unavailable, match=str(status)):
        CertificateFetcher()(serve(moved(status, target.url)).url)
    assert target.requests == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_w3_a_proxy_of_the_environment_is_not_used(serve, monkeypatch, scheme):
    proxy = serve(whole(b"from the proxy"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.root)
        monkeypatch.setenv(name.upper(), proxy.root)
    server = serve(whole(b"from the server"))
    if scheme == "http":
        assert CertificateFetcher()(server.url) == b"from the server"
    else:  # it speaks no TLS, but it is the one that was asked
        with pytest.raises(Unavailable):
            CertificateFetcher()(server.url.replace("http:", "https:"))
    assert len(server.requests) == 1
    assert proxy.requests == []


def test_w4_a_compressed_answer_is_not_blown_up(serve):
    packed = gzip.compress(b"x" * 1_000_000)
    server = serve(whole(packed, extra=b"Content-Encoding: gzip\r\n"))
    assert CertificateFetcher()(server.url) == packed


@pytest.mark.parametrize("behave", SLOW.values(), ids=SLOW.keys())
def test_w4_a_slow_or_endless_server_costs_the_deadline_and_no_more(serve, behave):
    server = serve(behave)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        CertificateFetcher(deadline=0.4)(server.url)
    assert time.monotonic() - started < 2.5  # the deadline nobody asked for is 3 s


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
    with pytest.raises(NotAsked, match="too many"):
        fetch(server.url)
    release.set()
    for thread in threads:
        thread.join()
    assert results == [b"late", b"late"]
    assert fetch(serve(whole(b"again")).url) == b"again"


def test_a_server_that_is_not_there_or_speaks_no_tls_is_unavailable(serve, closed_port):
    with pytest.raises(Unavailable):
        CertificateFetcher()(f"http://127.0.0.1:{closed_port}/x.pem")
    with pytest.raises(Unavailable):
        CertificateFetcher()(serve(whole(b"x")).url.replace("http:", "https:"))
    with pytest.raises(Unavailable):
        CertificateFetcher()("https://name.invalid/x.pem")
