"""The client of a storm: many connections that bring events, others that go on asking meanwhile.

Run by path as ``python -I storm_client.py ORDER``, where ORDER is a file with one JSON object: ``port``,
``seed``, ``storm`` (``head``, ``bodies``: a file with one body a line, ``count``, ``connections``) and
``others`` (by name: ``head``, ``body`` in which N@ is another name each time, ``rate`` a second).

The bodies are brought ``count`` times in all, each as often as the others, in a shuffled order. Others
are asked by the clock, however long the last answer takes, and their time counts from when they were
due: people don't wait for each other. What came back is in ORDER.answer when it is done.
"""

import json
import random
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TELL_SECONDS = 0.5
_LAST_SECONDS = 20.0
"""How long the others' last answers are waited for once the storm is over."""


@dataclass
class Stream:
    """One kind of request, and what came back."""

    name: str
    rate: float = 0.0
    due: float = 0.0
    asked: int = 0
    open: int = 0
    idle: list["Connection"] = field(default_factory=list["Connection"])
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    seconds: list[float] = field(default_factory=list[float])
    refused: list[int] = field(default_factory=list[int])
    """Numbers of the bodies that were not answered with a 2xx."""


class Connection:
    """One connection, with a request on it or idle."""

    def __init__(self, port: int, stream: Stream) -> None:
        self.wire = socket.create_connection(("127.0.0.1", port))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = stream
        self.read = b""
        self.begun = 0.0
        self.body = -1

    def answer(self) -> str | None:
        """Read on; gives the status of an answer that is whole, "closed" where there will be none."""
        try:
            piece = self.wire.recv(65536)
        except OSError:
            piece = b""
        if not piece:
            return "closed"
        self.read += piece
        end = self.read.find(b"\r\n\r\n")
        length = _LENGTH.search(self.read, 0, end + 2) if end >= 0 else None
        if length is None or len(self.read) < end + 4 + int(length[1]):
            return None
        status = self.read[9:12].decode()
        self.read = b""
        return status


class Client:
    """Sends what is ordered, in one thread."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._port = int(order["port"])
        self._selector = selectors.DefaultSelector()
        storm = order["storm"]
        bodies = Path(storm["bodies"]).read_bytes().splitlines()
        self._requests = [_request(storm["head"], body) for body in bodies]
        self._order = [n % len(bodies) for n in range(storm["count"])]
        random.Random(order["seed"]).shuffle(self._order)  # noqa: S311 - an order, the same each time
        self._connections = int(storm["connections"])
        self._storm = Stream("storm")
        self._others = [
            (Stream(name, rate=other["rate"]), other) for name, other in order["others"].items()
        ]

    def run(self) -> dict[str, Any]:
        """Bring everything; gives what came back."""
        begun = told = time.perf_counter()
        for stream, _ in self._others:
            stream.due = begun
        for _ in range(min(self._connections, len(self._order))):
            self._bring()
        while self._storm.open:
            self._ask_whoever_is_due()
            self._receive(min((stream.due for stream, _ in self._others), default=begun + 1e9))
            if time.perf_counter() - told > _TELL_SECONDS:
                told = time.perf_counter()
                print(len(self._storm.seconds), flush=True)  # noqa: T201 - read from the log
        seconds = time.perf_counter() - begun
        until = time.perf_counter() + _LAST_SECONDS
        while any(stream.open for stream, _ in self._others) and time.perf_counter() < until:
            self._receive(time.perf_counter() + 0.1)
        streams = (self._storm, *(stream for stream, _ in self._others))
        return {"seconds": seconds} | {
            stream.name: {
                "statuses": stream.statuses | ({"none": stream.open} if stream.open else {}),
                "seconds": stream.seconds,
                "refused": stream.refused,
            }
            for stream in streams
        }

    def _bring(self) -> None:
        body = self._order.pop()
        self._send(self._storm, self._requests[body], time.perf_counter(), body)

    def _ask_whoever_is_due(self) -> None:
        now = time.perf_counter()
        for stream, other in self._others:
            while stream.due <= now:
                body = other["body"].replace("N@", f"{stream.asked}@").encode()
                stream.asked += 1
                self._send(stream, _request(other["head"], body), stream.due, -1)
                stream.due += 1 / stream.rate

    def _send(self, stream: Stream, request: bytes, begun: float, body: int) -> None:
        if stream.idle:
            connection = stream.idle.pop()
        else:
            connection = Connection(self._port, stream)
            self._selector.register(connection.wire, selectors.EVENT_READ, connection)
        connection.begun, connection.body = begun, body
        stream.open += 1
        connection.wire.sendall(request)

    def _receive(self, until: float) -> None:
        for key, _ in self._selector.select(max(0.0, until - time.perf_counter())):
            connection = cast("Connection", key.data)
            status = connection.answer()
            if status is None:
                continue
            stream = connection.stream
            if status == "closed":
                self._selector.unregister(connection.wire)
                connection.wire.close()
                if connection in stream.idle:
                    stream.idle.remove(connection)
                    continue
            else:
                stream.idle.append(connection)
            stream.open -= 1
            stream.statuses[status] = stream.statuses.get(status, 0) + 1
            stream.seconds.append(time.perf_counter() - connection.begun)
            if not status.startswith("2"):
                stream.refused.append(connection.body)
            if stream is self._storm and self._order:
                self._bring()


def _request(head: str, body: bytes) -> bytes:
    return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    written = Path(f"{given}.writing")
    written.write_text(json.dumps(Client(json.loads(given.read_text())).run()))
    written.rename(f"{given}.answer")
