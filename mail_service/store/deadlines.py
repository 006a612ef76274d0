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
        """Give the socket's descriptor; once it is closed, raise or give no descriptor."""
        ...


class Deadlines:
    """Cuts connections that are in use for longer than they may be. Its thread starts when needed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed = threading.Condition()
        self._running: dict[object, tuple[float, Connection]] = {}
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._at_rest = False

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(2)

    @contextmanager
    def watch(self, connection: Connection) -> Generator[None]:
        """Let the block use this connection for so long and no longer."""
        use = object()
        with self._changed:
            self._running[use] = (time.monotonic() + self._seconds, connection)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif self._at_rest:
                self._at_rest = False
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._running[use]

    def _run(self) -> None:
        with self._changed:
            while not self._stopping:
                # While nothing is in use there is nothing to look at, and nobody is to be woken.
                self._at_rest = not self._running
                self._changed.wait(None if self._at_rest else LOOK_SECONDS)
                now = time.monotonic()
                for until, connection in self._running.values():
                    if until < now:
                        _cut(connection)


def _cut(connection: Connection) -> None:
    """End a connection that is in use. One that its user closed meanwhile is left alone."""
    number = _number(connection)
    # A descriptor of our own: the number can become somebody else's at any moment. It had not yet if it
    # is still the connection's.
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as wire:
        if _number(connection) == number:
            wire.shutdown(socket.SHUT_RDWR)


def _number(connection: Connection) -> int:
    try:
        return connection.fileno()
    except Exception:  # each library has an error of its own for a closed one
        return -1
