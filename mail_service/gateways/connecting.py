"""A connection to SES within a time, or the proof that nothing was written to it."""

import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any


class Unconnected(OSError):
    """The connection was not made, so not a byte of the request left."""


def connect(host: str, port: int, tls: ssl.SSLContext | None, seconds: float) -> socket.socket:
    """Resolve the host, reach one of its addresses and shake hands, all within ``seconds``.

    Each address gets its share of the time that is left, or one that swallows packets would keep the
    next from ever being tried. The resolver can't be stopped, but nothing is begun when it was too slow.
    Raises TimeoutError, ssl.SSLError, other OSErrors, and ValueError for a host that no resolver takes.
    """
    ends = time.monotonic() + seconds
    sock = _reach(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), ends)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            sock.settimeout(_left(ends))
            sock = tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    return sock


def _reach(addresses: Sequence[tuple[int, int, int, str, Any]], ends: float) -> socket.socket:
    failed: OSError = OSError("a host without an address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        share = _left(ends) / (len(addresses) - number)
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


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
