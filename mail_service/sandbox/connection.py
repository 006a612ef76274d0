"""One HTTP/1.1 connection, down at the socket so that it can hang, reset and answer garbage."""

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024
_REASONS = {status.value: status.phrase for status in HTTPStatus}
# The system's poll() takes milliseconds in an int; a day is for ever here.
_LONGEST_WAIT_SECONDS = 86_400.0


class BadRequestError(Exception):
    """The peer sent what is no HTTP request that we serve."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was read whole. Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    client: str

    @property
    def path(self) -> str:
        """The path as sent, still percent-encoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The query string without its question mark."""
        return self.target.partition("?")[2]

    @property
    def keep_alive(self) -> bool:
        """False when the client wants the connection closed after the answer."""
        return self.headers.get("connection", "").lower() != "close"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer to be written."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Connection:
    """Reads requests from a client's socket and writes answers to it."""

    def __init__(self, sock: socket.socket, client: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._client = client
        self._buffer = bytearray()
        self.open = True
        self.interrupted = False

    def read_request(self) -> Request | None:
        """The next request; None once the client is gone or has nothing more to say."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise BadRequestError(431, "The head of the request is too long.")
            if not self._receive():
                return None
        head = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 4]
        first, *lines = head.split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequestError(400, "This is no HTTP/1.1 request.")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if words[2] == "HTTP/1.0":
            headers.setdefault("connection", "close")
        body = self._read_body(headers)
        if body is None:
            return None
        return Request(words[0], words[1], headers, body, self._client)

    def _read_body(self, headers: dict[str, str]) -> bytes | None:
        if "transfer-encoding" in headers:
            raise BadRequestError(411, "Send a Content-Length.")
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise BadRequestError(400, "Content-Length is no number.")
        size = int(length)
        if size > _MAX_BODY:
            raise BadRequestError(413, "The body of the request is too long.")
        if headers.get("expect", "").lower() == "100-continue" and len(self._buffer) < size:
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._buffer) < size:
            if not self._receive():
                return None
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return body

    def _receive(self) -> bool:
        try:
            chunk = self._socket.recv(262_144)
        except OSError:
            return False
        self._buffer += chunk
        return bool(chunk)

    def write(self, response: Response, *, head_only: bool = False) -> bool:
        """Write an answer; False when the client was gone before all of it was written."""
        if self.client_gone():
            return False
        reason = _REASONS.get(response.status, "")
        lines = [
            f"HTTP/1.1 {response.status} {reason}",
            f"Date: {formatdate(usegmt=True)}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            *(f"{name}: {value}" for name, value in response.headers.items()),
        ]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        return self.write_bytes(head if head_only else head + response.body)

    def write_bytes(self, data: bytes) -> bool:
        """Write bytes as they are, HTTP or not; False when the client was gone."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.open = False
            return False
        return True

    def client_gone(self) -> bool:
        """True once the client has closed or reset its side."""
        try:
            gone = not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            gone = True
        if gone:
            self.open = False
        return gone

    def wait(self, seconds: float) -> bool:
        """Stay silent for `seconds`; False as soon as the client is gone."""
        deadline = time.monotonic() + min(seconds, _LONGEST_WAIT_SECONDS)
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if poller.poll(left * 1000):
                if self.client_gone():
                    return False
                # The client has sent more without waiting for its answer: look again later.
                time.sleep(min(left, 0.05))
        return True

    def reset(self) -> None:
        """Cut the connection so that the client sees a reset instead of an orderly end."""
        self.open = False
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def interrupt(self) -> None:
        """Wake whatever thread reads from or waits on this connection, and let it end."""
        self.interrupted = True
        self.open = False
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; closing twice is harmless."""
        self.open = False
        self._socket.close()
