"""Posts SNS messages to HTTP endpoints and says what came of it."""

import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

HttpConnection = http.client.HTTPConnection
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Posted:
    """The endpoint's answer; `status` is None when there was none."""

    status: int | None
    error: str | None
    seconds: float

    @property
    def delivered(self) -> bool:
        """True for a 2xx answer."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def worth_retrying(self) -> bool:
        """True for no answer and for 5xx; SNS never repeats after a 4xx."""
        return self.status is None or self.status >= 500


class Courier:
    """An HTTP client that keeps connections and can be interrupted from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[_Place, list[HttpConnection]] = {}
        self._busy: set[HttpConnection] = set()
        self._closed = False

    def post(
        self, endpoint: str, body: bytes, headers: dict[str, str], timeout_seconds: float
    ) -> Posted:
        """Post `body` once; never raises for what the network or the endpoint does."""
        began = time.monotonic()
        parts = urlsplit(endpoint)
        place = (parts.scheme, parts.netloc)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = self._take(place, timeout_seconds)
        if connection is None:
            return Posted(None, "the sandbox is stopping", 0)
        keep = False
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            response.read()
            keep = not response.will_close
            posted = Posted(response.status, None, time.monotonic() - began)
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            posted = Posted(None, reason, time.monotonic() - began)
        self._give_back(place, connection, keep=keep)
        return posted

    def _take(self, place: _Place, timeout_seconds: float) -> HttpConnection | None:
        with self._lock:
            if self._closed:
                return None
            idle = self._idle.get(place, [])
            while idle:
                connection = idle.pop()
                if _alive(connection):
                    connection.sock.settimeout(timeout_seconds)
                    break
                connection.close()
            else:
                connection = _connection_to(place, timeout_seconds)
            self._busy.add(connection)
            return connection

    def _give_back(self, place: _Place, connection: HttpConnection, *, keep: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if keep and not self._closed:
                self._idle.setdefault(place, []).append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close idle connections and cut those in use."""
        with self._lock:
            self._closed = True
            for connection in (c for idle in self._idle.values() for c in idle):
                connection.close()
            self._idle.clear()
            for connection in self._busy:
                sock: socket.socket | None = connection.sock
                if sock is not None:
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)


def _connection_to(place: _Place, timeout_seconds: float) -> HttpConnection:
    scheme, netloc = place
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(netloc, timeout=timeout_seconds, context=context)
    return HttpConnection(netloc, timeout=timeout_seconds)


def _alive(connection: HttpConnection) -> bool:
    sock: socket.socket | None = connection.sock
    if sock is None:
        return False
    poller = select.poll()
    poller.register(sock.fileno(), select.POLLIN)
    return not poller.poll(0)
