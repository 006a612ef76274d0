"""How requests are served: gunicorn's threaded worker, with four things that it lacks (decision 0017).

A deadline from a request's first byte to its last; a thread that stays with its connection; a
connection's end that no other waits for; and new connections shared among the workers.
"""

import select
import socket
import time
from contextlib import suppress
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from mail_service.store.deadlines import Deadlines

REQUEST_SECONDS = 15.0
"""The longest that one request may hold a thread: SNS gives up on an answer after as long, and our own
longest work (waiting for a connection, then a transaction) is within it."""

STAY_MS = 10
"""How long a thread waits for the next request of the connection that it answered."""

YIELD_SECONDS = 0.0001
"""How long a worker leaves a new connection to its siblings, for each connection that it has."""

LONGEST_YIELD = 0.001


class Worker(ThreadWorker):
    """Cuts clients that let a request drip in, and costs less than its parent under load."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - gunicorn's own, untyped
        super().__init__(*args, **kwargs)
        self.deadlines = Deadlines(REQUEST_SECONDS)

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - as above
        """Take a new connection, unless a sibling that has fewer does.

        Every worker hears of it, and one that is awake would take a whole burst and keep it. With a
        sibling that is frozen or gone a connection comes this little later, and is not lost.
        """
        time.sleep(min(self.nr_conns * YIELD_SECONDS, LONGEST_YIELD))
        super().accept(listener)

    def handle(self, conn: Any) -> Any:  # noqa: ANN401 - as above
        """Serve a request of this connection and those that follow at once, each within the deadline."""
        while True:
            with self.deadlines.watch(conn.sock):
                kept = super().handle(conn)
            if not kept:
                _part(conn.sock)
            if kept is not True or not self._follows(conn):
                return kept

    def _follows(self, conn: Any) -> bool:  # noqa: ANN401 - as above
        # While there is a thread for every connection, no other waits for the one that stays.
        if self.nr_conns > self.cfg.threads or not self.alive:
            return False
        if conn.parser.unreader.buf.getvalue():  # read already, with the request before it
            return True
        poll = select.poll()
        poll.register(conn.sock, select.POLLIN)
        return bool(poll.poll(STAY_MS))


def _part(sock: socket.socket) -> None:
    """Wait for the client to close its end, which gunicorn does on the one thread that serves them all.

    What is left for that thread to close ends at once.
    """
    with suppress(OSError):
        util.close_graceful(sock.dup())
        sock.shutdown(socket.SHUT_RDWR)
