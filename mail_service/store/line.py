"""The drain's own connection, on which it works and also hears the nudge."""

import select
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from mail_service.store.database import TRANSACTION_SECONDS, Transactions, rolled_back
from mail_service.store.deadlines import Deadlines
from mail_service.store.session import CHANNEL, Session, conninfo

# The drain's few statements touch rows by index, whatever the statistics say: those of tables that
# have just been filled say nothing. Planned once, since planning a claim costs more than running it.
_PLANS = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
"""


class Line(Transactions):
    """One connection of a drain's own, on which it also listens for the nudge.

    Not for more than one thread. Connects when first used, and again after it was lost.
    """

    def __init__(self, url: str, *, name: str) -> None:
        self._url = conninfo(url, name)
        self._connection: Session | None = None
        self._deadlines = Deadlines(TRANSACTION_SECONDS)

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def wait(self, seconds: float, waker: int) -> bool:
        """Sleep until nudged, until the descriptor ``waker`` is readable, or time is up.

        Says whether a nudge came, also one that came while a statement ran.
        """
        nudged = self._heard()
        watched = [waker]
        connection = self._connection
        if connection is not None and not connection.closed:
            watched.append(connection.fileno())
        readable, _, _ = select.select(watched, [], [], 0 if nudged else max(0.0, seconds))
        if len(watched) > 1 and watched[1] in readable:
            nudged = self._heard() or nudged
        return nudged

    def _heard(self) -> bool:
        """Say whether a nudge came since this was last asked, also while a statement ran."""
        connection = self._connection
        if connection is None or connection.closed:
            return False
        try:
            return bool(list(connection.notifies(timeout=0)))
        except psycopg.Error:
            # Lost while idle; the next transaction connects again.
            self.close()
            return False

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection]:
        """Give the connection, made anew if it was lost; rolls back what fails."""
        connection = self._connection
        if connection is None or connection.closed or connection.broken:
            self.close()
            connection = Session.connect(self._url)
            try:
                with self._deadlines.watch(connection):
                    Session.limit(connection)
                    connection.execute(_PLANS)
                    connection.learn_enums()
                    connection.execute(f"LISTEN {CHANNEL}")
                    connection.commit()
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        try:
            with self._deadlines.watch(connection), rolled_back(connection):
                yield connection
        except BaseException:
            if connection.broken:
                self.close()
            raise
