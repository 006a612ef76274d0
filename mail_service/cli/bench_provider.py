"""The cheapest SES that is still one: it answers every call alike, and remembers when each came.

Run by path as ``python -I -S bench_provider.py``, one process for every case of a bench, so that its
own cost is the same for all and is counted for none. It prints its port, then takes one JSON command
a line on stdin and answers one JSON line each. It reads of a request what is counted: the first
recipient, the request's tag, the length of the body. ``gate`` holds the answers until so many calls
wait, so that every sender starts with all of its slots at work.
"""

import heapq
import json
import re
import selectors
import socket
import sys
import time
from typing import Any, cast

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RECIPIENT = re.compile(rb'"ToAddresses": ?\["([^"]*)"')
_TAG = re.compile(rb'"EmailTags": ?\[\{"Name": ?"[^"]*", ?"Value": ?"([^"]*)"')
_ACCOUNT = json.dumps(
    {
        "SendQuota": {"Max24HourSend": -1, "MaxSendRate": 1_000_000, "SentLast24Hours": 0},
        "SendingEnabled": True,
        "ProductionAccessEnabled": True,
    }
).encode()


class _Connection:
    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self.read = b""


class Provider:
    """An HTTP server in one thread: ready sockets, and answers that wait for their time."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self.port = int(self._listener.getsockname()[1])
        self._number = 0
        self._run = 0
        self._certificate = b""
        self.reset(0, 0)

    def reset(self, latency: float, gate: int) -> None:
        """Forget every call."""
        self._latency = latency
        self._gate = gate
        self._run += 1
        self._calls: list[tuple[float, bytes, bytes, int]] = []
        self._due: list[tuple[float, int, _Connection, bytes]] = []
        self._held: list[tuple[_Connection, bytes]] = []

    def serve(self) -> None:
        """Serve until stdin ends."""
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is sys.stdin:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    answer = self._obey(json.loads(line))
                    sys.stdout.write(json.dumps(answer) + "\n")
                    sys.stdout.flush()
                else:
                    self._receive(cast("_Connection", key.data))
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, _, connection, answer = heapq.heappop(self._due)
                self._send(connection, answer)

    def _obey(self, command: dict[str, Any]) -> object:
        match command["do"]:
            case "reset":
                self.reset(command["latency"], command["gate"])
            case "open":
                self._open()
            case "certificate":
                self._certificate = command["pem"].encode()
            case "report":
                return [
                    (at, tag.decode(), recipient.decode(), size)
                    for at, tag, recipient, size in self._calls
                ]
            case _:
                pass
        return {"calls": len(self._calls), "held": len(self._held), "gate": self._gate}

    def _accept(self) -> None:
        wire, _ = self._listener.accept()
        wire.setblocking(True)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(wire, selectors.EVENT_READ, _Connection(wire))

    def _receive(self, connection: _Connection) -> None:
        try:
            piece = connection.wire.recv(262144)
        except OSError:
            piece = b""
        if not piece:
            self._selector.unregister(connection.wire)
            connection.wire.close()
            return
        read = connection.read + piece
        head = read.find(b"\r\n\r\n")
        if head >= 0:
            length = _LENGTH.search(read, 0, head + 2)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(read) >= end:
                connection.read = read[end:]
                self._answer(connection, read[:head], read[head + 4 : end])
                return
        connection.read = read

    def _answer(self, connection: _Connection, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST /v2/email/outbound-emails "):
            tag, recipient = _TAG.search(body), _RECIPIENT.search(body)
            if tag is None or recipient is None or b"\r\nauthorization: " not in head.lower():
                self._send(connection, self._response(b'{"message": "not a call"}', status=400))
                return
            self._calls.append((time.time(), tag[1], recipient[1], len(body)))
            self._number += 1
            message_id = b'{"MessageId":"bench-%d-%d"}' % (self._run, self._number)
            self._later(connection, self._response(message_id))
        elif head.startswith(b"GET /v2/email/account "):
            self._send(connection, self._response(_ACCOUNT))
        elif self._certificate and head.split(b" ", 2)[1].endswith(b".pem"):
            self._send(connection, self._response(self._certificate))
        else:
            self._send(connection, self._response(b'{"message": "not here"}', status=404))

    def _later(self, connection: _Connection, answer: bytes) -> None:
        if self._gate:
            self._held.append((connection, answer))
            if len(self._held) >= self._gate:
                self._open()
        elif self._latency:
            due = time.monotonic() + self._latency
            heapq.heappush(self._due, (due, self._number, connection, answer))
        else:
            self._send(connection, answer)

    def _open(self) -> None:
        self._gate = 0
        held, self._held = self._held, []
        for connection, answer in held:
            self._send(connection, answer)

    def _response(self, body: bytes, status: int = 200) -> bytes:
        return (
            b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nx-amzn-RequestId: %d\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (status, self._number, len(body), body)
        )

    def _send(self, connection: _Connection, answer: bytes) -> None:
        try:
            connection.wire.sendall(answer)
        except OSError:
            return  # the caller is gone; its socket will say so


def main() -> None:
    """Say where it listens, and serve until the owner closes stdin."""
    provider = Provider()
    sys.stdout.write(f"{provider.port}\n")
    sys.stdout.flush()
    provider.serve()


if __name__ == "__main__":
    main()
