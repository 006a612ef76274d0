"""A time limit of our own on connections, for a peer that is there and does not get on.

A database server's time-outs can't fire where the server is frozen (a failover, a stalled disk), a
client may send one byte every few seconds, and TCP sees nothing wrong in either. So a thread cuts a
connection that is in use for longer than it may; whoever waits on it gets an error like for any lost
connection.
"""

import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol

LOOK_SECONDS = 0.5


class Connection(Protocol):
    """Anything that has a socket underneath."""

    def fileno(self) -> int:
        """Give the socket's descriptor."""
        ...


class Deadlines:
    """Cuts connections that are in use for longer than they may be. Its thread starts when needed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: dict[int, tuple[float, socket.socket]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(2)

    @contextmanager
    def watch(self, connection: Connection) -> Generator[None]:
        """Let the block use this connection for so long and no longer."""
        # A descriptor of our own on the same connection: it can't become somebody else's meanwhile.
        with socket.socket(fileno=os.dup(connection.fileno())) as wire:
            key = id(wire)
            with self._lock:
                self._running[key] = (time.monotonic() + self._seconds, wire)
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                    self._thread.start()
            try:
                yield
            finally:
                with self._lock:
                    self._running.pop(key, None)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            now = time.monotonic()
            with self._lock:
                for until, wire in self._running.values():
                    if until < now:
                        with suppress(OSError):
                            wire.shutdown(socket.SHUT_RDWR)
