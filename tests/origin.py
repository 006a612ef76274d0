"""Where certificates are fetched from, as a server that means no good: byte for byte as it is told."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PATH = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
OK = b"HTTP/1.1 200 OK\r\n"

Behaviour = bytes | Callable[[socket.socket], None]
Start = Callable[[Behaviour], "Origin"]


class Origin:
    """Speaks to one caller after another as ``behave`` says; keeps what was asked."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}{PATH}"
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
        with connection, suppress(OSError):  # the caller went away
            self.requests.append(connection.recv(65536))
            self._behave(connection)

    def stop(self) -> None:
        """End every conversation and every thread."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
            assert not thread.is_alive()


@contextmanager
def origins() -> Iterator[Start]:
    """Give what starts servers; all of them are stopped at the end."""
    started: list[Origin] = []

    def start(behave: Behaviour) -> Origin:
        act = behave if callable(behave) else lambda connection: connection.sendall(behave)
        started.append(Origin(act))
        return started[-1]

    try:
        yield start
    finally:
        for server in started:
            server.stop()


def whole(body: bytes, status: bytes = OK, extra: bytes = b"") -> bytes:
    """Give a complete answer."""
    length = b"Content-Length: %d\r\n" % len(body)
    return status + length + extra + b"Connection: close\r\n\r\n" + body


def moved(status: int, target: str) -> bytes:
    """Give an answer that sends the caller elsewhere."""
    location = b"Location: " + target.encode() + b"\r\n"
    return whole(b"", b"HTTP/1.1 %d Moved\r\n" % status, location)


def _endless(start: bytes, drop: bytes, pause: float) -> Callable[[socket.socket], None]:
    def behave(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(drop)
            time.sleep(pause)  # the attack itself, not a wait for luck

    return behave


def _silent(connection: socket.socket) -> None:
    connection.settimeout(10)
    connection.recv(1)


SLOW: dict[str, Callable[[socket.socket], None]] = {
    "endless": _endless(OK + b"\r\n", b"x" * 4096, 0),
    "trickling body": _endless(OK + b"\r\n", b"x", 0.02),
    "trickling headers": _endless(OK, b"X: y\r\n", 0.05),
    "trickling status": _endless(b"", b"H", 0.02),
    "silent": _silent,
}
"""Servers that never come to an end."""

WRONG = {
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
"""Answers that are no whole, small file."""
