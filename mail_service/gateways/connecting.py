"""A connection to SES within a time, or the proof that nothing was written to it."""

import select
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final

from mail_service.gateways.endpoint import Endpoint
from mail_service.gateways.http_answer import HttpAnswer

PIECE: Final = 1 << 16
SLACK: Final = 0.01


class Unconnected(OSError):
    """The connection was not made, so not a byte of the request left."""


def connect(host: str, port: int, tls: ssl.SSLContext | None, *, until: float) -> socket.socket:
    """Resolve the host, reach one of its addresses and shake hands, all before ``until``, monotonic.

    Each address gets its share of the time that is left, or one that swallows packets would keep the
    next from ever being tried. The resolver can't be stopped, but nothing is begun when it was too slow.
    Raises TimeoutError, ssl.SSLError, other OSErrors, and ValueError for a host that no resolver takes.
    """
    sock = _reach(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), until)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            sock.settimeout(_left(until))
            sock = tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    return sock


def _reach(addresses: Sequence[tuple[int, int, int, str, Any]], until: float) -> socket.socket:
    failed: OSError = OSError("a host without an address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        share = _left(until) / (len(addresses) - number)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(share)
            sock.connect(address)
        except OSError as error:
            sock.close()
            failed = error
        else:
            return sock
    raise failed


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Connection:
    """One connection, for one call at a time."""

    def __init__(self, sock: socket.socket, leads_to: Endpoint) -> None:
        self.leads_to = leads_to
        self.reusable = False
        self._sock = sock
        self._idle_since = 0.0
        self._news = select.poll()
        self._news.register(sock, select.POLLIN)

    def is_fresh(self, idle_seconds: float) -> bool:
        """Whether it serves another request: not idle for long, and nothing came unasked, nor a close."""
        return not self.is_old(idle_seconds) and not self._news.poll(0)

    def is_old(self, idle_seconds: float) -> bool:
        """Whether it was idle for so long that nobody may write to it."""
        return time.monotonic() - self._idle_since >= idle_seconds

    def exchange(self, wire: bytes, seconds: float) -> HttpAnswer:
        """Write the request once and read its answer.

        Raises OSError, TimeoutError after ``seconds``, or HttpParserError for what is no HTTP.
        """
        self.reusable = False
        ends = time.monotonic() + seconds
        self._limit(seconds)
        self._sock.sendall(wire)
        answer = HttpAnswer()
        while not answer.whole:
            self._limit(ends - time.monotonic())
            answer.feed(self._sock.recv(PIECE))
        self._idle_since = time.monotonic()
        self.reusable = answer.keeps_connection
        return answer

    def close(self) -> None:
        """Close it, whatever is on its way."""
        self._sock.close()

    def _limit(self, seconds: float) -> None:
        """Bound the next wait, give or take ``SLACK``."""
        if seconds <= 0:
            raise TimeoutError
        # To set a time-out is a system call, and nearly every answer comes as the first thing waited for.
        if abs((self._sock.gettimeout() or 0.0) - seconds) > SLACK:
            self._sock.settimeout(seconds)
