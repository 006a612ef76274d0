"""The pool of connections that a process shares: sized, checked when taken, each use within a time."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from mail_service.store.database import TRANSACTION_SECONDS, Transactions, rolled_back
from mail_service.store.deadlines import Deadlines
from mail_service.store.session import Session, conninfo


class Database(Transactions):
    """A sized pool of connections to one PostgreSQL."""

    def __init__(self, url: str, *, name: str, size: int, wait_seconds: float = 4) -> None:
        self._deadlines = Deadlines(TRANSACTION_SECONDS)
        self._pool = ConnectionPool(
            conninfo(url, name),
            min_size=0,
            max_size=size,
            timeout=wait_seconds,
            max_idle=60,
            open=False,
            name=name,
            connection_class=Session,
            configure=Session.limit,
            # A restarted server is met here, not in the middle of somebody's request.
            check=self._check,
            reconnect_timeout=5,
        )

    def open(self) -> None:
        """Start the pool. No connection is made before one is needed."""
        self._pool.open(wait=False)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close(timeout=2)
        self._deadlines.stop()

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection[TupleRow]]:
        """Borrow a connection; what fails is rolled back before it goes back."""
        connection = self._pool.getconn()
        try:
            with self._deadlines.watch(connection), rolled_back(connection):
                connection.learn_enums()
                yield connection
        finally:
            self._pool.putconn(connection)

    def _check(self, connection: Session) -> None:
        """Ask a connection that has something to say whether it lives; silence means that it does.

        Nothing is due on an idle one but its end: the server's good-bye, or the kernel's, whose
        keepalives find a peer that vanished. So most requests need not ask.
        """
        if connection.has_word():
            with self._deadlines.watch(connection):
                ConnectionPool.check_connection(connection)
