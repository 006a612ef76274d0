"""How requests are served: gunicorn's threaded worker, with a deadline from first byte to last."""

from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from mail_service.store.deadlines import Deadlines

REQUEST_SECONDS = 15.0
"""The longest that one request may hold a thread: SNS gives up on an answer after as long, and our own
longest work (waiting for a connection, then a transaction) is within it."""


class Worker(ThreadWorker):
    """Cuts clients that let a request drip in; a read time-out alone never ends them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - gunicorn's own, untyped
        super().__init__(*args, **kwargs)
        self._deadlines = Deadlines(REQUEST_SECONDS)

    def handle(self, conn: Any) -> Any:  # noqa: ANN401 - as above
        """Serve one request of this connection, within the deadline."""
        with self._deadlines.watch(conn.sock):
            return super().handle(conn)
