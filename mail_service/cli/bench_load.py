"""A client that costs little: the same few connections, each posting the next body at once.

Run by path as ``python -I bench_load.py ORDER``, where ORDER is a file with one JSON object: ``port``,
``path``, ``headers``, ``bodies`` (a file with one body a line), ``connections``. What came back is in
ORDER.answer when it is done: the statuses, and each request's time.
"""

import json
import re
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import Any, cast

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Connection:
    def __init__(self, port: int) -> None:
        self.wire = socket.create_connection(("127.0.0.1", port))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = b""
        self.begun = 0.0


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Post every body once; gives what came back."""
    head = f"POST {order['path']} HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in order["headers"].items()
    )
    requests = [
        b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)
        for body in Path(order["bodies"]).read_bytes().splitlines()
    ]
    requests.reverse()
    selector = selectors.DefaultSelector()
    statuses: dict[str, int] = {}
    seconds: list[float] = []
    ends: list[float] = []

    def post(connection: _Connection) -> None:
        connection.begun = time.perf_counter()
        connection.wire.sendall(requests.pop())

    busy = 0
    for _ in range(min(order["connections"], len(requests))):
        connection = _Connection(order["port"])
        selector.register(connection.wire, selectors.EVENT_READ, connection)
        post(connection)
        busy += 1
    while busy:
        for key, _ in selector.select():
            connection = cast("_Connection", key.data)
            piece = connection.wire.recv(65536)
            if not piece:
                raise ConnectionError("the server closed a connection in the middle of an answer")
            connection.read += piece
            end = connection.read.find(b"\r\n\r\n")
            length = _LENGTH.search(connection.read, 0, end + 2) if end >= 0 else None
            if length is None or len(connection.read) < end + 4 + int(length[1]):
                continue
            now = time.perf_counter()
            status = connection.read[9:12].decode()
            statuses[status] = statuses.get(status, 0) + 1
            seconds.append(now - connection.begun)
            ends.append(now)
            connection.read = b""
            if requests:
                post(connection)
            else:
                busy -= 1
    return {"statuses": statuses, "seconds": seconds, "ends": ends}


if __name__ == "__main__":
    given = Path(sys.argv[1])
    written = Path(f"{given}.writing")
    written.write_text(json.dumps(run(json.loads(given.read_text()))))
    written.rename(f"{given}.answer")
