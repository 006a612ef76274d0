"""A time limit of our own on every transaction, for a server that accepts and never answers.

The server's time-outs can't fire where the server is frozen (a failover, a stalled disk), and TCP sees
nothing wrong. So a thread cuts the connection's socket once a transaction is over its limit; whoever
waits on it gets an error like for any lost connection.
"""

import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

LOOK_SECONDS = 0.5


class Deadlines:
    """Cuts connections that are in use for longer than they may be. Its thread starts when needed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: dict[int, tuple[float, int]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(2)

    @contextmanager
    def watch(self, connection: psycopg.Connection[Any]) -> Generator[None]:
        """Let the block use this connection for so long and no longer."""
        key = id(connection)
        with self._lock:
            self._running[key] = (time.monotonic() + self._seconds, connection.fileno())
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
            # Under the lock, so that no descriptor is cut that has become somebody else's.
            with self._lock:
                for until, descriptor in self._running.values():
                    if until < now:
                        _cut(descriptor)


def _cut(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as wire:
        wire.shutdown(socket.SHUT_RDWR)
