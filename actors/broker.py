"""The dramatiq-pg broker, set up so that its defects can't hurt. The only file that knows psycopg2.

A hint in its table is never the record: the outbox is. So a hint may be lost, doubled or dropped, and
that buys a consumer without most of the stock one: to take a hint is to delete its row. No lock is
held, nothing is acknowledged in the database, nothing finished stays, and nobody has to be rescued.
What is left of dramatiq-pg is its table, its way of enqueuing and the announcement that goes with it.
``docs/decisions/0003-hints-not-jobs.md`` lists its defects and what contains each.
"""

# dramatiq, dramatiq-pg and APScheduler are typed in part or not at all; they stay inside actors/.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

import inspect
import select
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import partial

import dramatiq
import psycopg2
from dramatiq import MessageProxy
from dramatiq.errors import ConnectionError as BrokerConnectionError
from dramatiq_pg import PostgresBroker
from dramatiq_pg.schema import generate_init_sql
from psycopg.conninfo import conninfo_to_dict
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.pool import PoolError

from mail_service.store.deadlines import Deadlines
from mail_service.store.session import conninfo

QUEUE = "mail"
SCHEMA = "dramatiq"

HINTS_ENOUGH = 3
"""With this many waiting, another hint would only make the table grow while no worker runs."""


class HintBroker(PostgresBroker):
    """One queue of hints: few, never delayed, enqueued at once or not at all."""

    look_every = 15.0
    """How long, in seconds, a hint may wait whose announcement was lost. The stock one rolls dice."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        # The default middleware brings retries, time limits and shutdown exceptions. Retry policy is
        # the outbox's, and an exception thrown into a thread between SES's answer and the commit is a
        # lost answer. Nor are hints dropped by age, which compares the clocks of two machines.
        self.lent = _Lent()
        super().__init__(pool=self.lent, results=False, schema=SCHEMA, prefix="", middleware=[])
        self.connect = connect
        # Ends a statement on a server that is there and frozen, which no time-out of its own can.
        self.deadlines = Deadlines(5.0)

    def declare_queue(self, queue_name: str) -> None:
        """Declare the queue alone; the stock broker declares a delayed twin with it."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = True
            self.emit_after("declare_queue", queue_name)

    def enqueue(
        self, message: dramatiq.Message[object], *, delay: int | None = None
    ) -> dramatiq.Message[object]:
        """Enqueue at once, or raise ConnectionError; where enough hints wait, this one is dropped."""
        if delay:
            raise ValueError("a hint can't be delayed; the outbox knows when mail is due")
        with (
            _as_lost_connection(),
            closing(self.connect()) as connection,
            self.deadlines.watch(connection),
        ):
            if _waiting(connection, message.queue_name) < HINTS_ENOUGH:
                self.lent.connection = connection
                # Inside the stock broker's ten tries, which may block its caller for minutes.
                inspect.unwrap(PostgresBroker.enqueue)(self, message)
        return message

    # dramatiq asks for its Consumer alone, and the stock one is what has the defects.
    def consume(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, queue_name: str, prefetch: int = 1, timeout: int = 30000
    ) -> "HintConsumer":
        """Give a consumer of hints, connected."""
        return HintConsumer(self, queue_name, prefetch, timeout)


class HintConsumer(dramatiq.Consumer):
    """Takes hints one by one, and to take one is to delete it. Holds one connection and no lock."""

    def __init__(self, broker: HintBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        self._broker = broker
        self._queue_name = queue_name
        self._seconds = timeout / 1000
        self._room = threading.BoundedSemaphore(prefetch)
        self._look_at = 0.0
        with _as_lost_connection():
            self._connection = broker.connect()
            self._connection.autocommit = True
            channel = sql.Identifier(f"dramatiq.{queue_name}.enqueue")
            # Before the first look, so that no hint falls between the two.
            self._run(sql.SQL("LISTEN {}").format(channel))

    def __next__(self) -> MessageProxy | None:
        """Give the next hint, or None after a while without one. Any error ends this consumer."""
        if not self._room.acquire(timeout=self._seconds):
            return None
        with _as_lost_connection():
            text = self._take() if self._due() else None
        if text is None:
            self._make_room()
            return None
        return MessageProxy(dramatiq.Message.decode(text.encode()))

    def ack(self, message: MessageProxy) -> None:
        """Make room for the next hint. The row went when the hint was taken."""
        self._make_room()

    nack = ack

    # What waits in memory when the worker stops is dropped: ``requeue`` does nothing, as inherited.

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _make_room(self) -> None:
        # A hint taken by a consumer that lost its connection is given back to the one after it.
        with suppress(ValueError):
            self._room.release()

    def _due(self) -> bool:
        """Wait until a hint is announced; says whether to look, which is due now and then anyway."""
        wait = min(self._seconds, self._look_at - time.monotonic())
        if wait <= 0:
            return True
        # One may have been announced while a statement ran.
        select.select([self._connection], [], [], 0 if self._connection.notifies else wait)
        self._connection.poll()
        announced = bool(self._connection.notifies)
        self._connection.notifies.clear()
        return announced

    def _take(self) -> str | None:
        text = self._run(
            """
            DELETE FROM dramatiq.queue WHERE message_id = (
                SELECT message_id FROM dramatiq.queue WHERE state = 'queued' AND queue_name = %s
                ORDER BY mtime LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING message::text
            """,
            self._queue_name,
        )
        if text is None:
            self._look_at = time.monotonic() + self._broker.look_every
        return text

    def _run(self, statement: str | sql.Composed, *parameters: str) -> str | None:
        with self._broker.deadlines.watch(self._connection), self._connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            row = cursor.fetchone() if cursor.description else None
            return None if row is None else str(row[0])


class _Lent(threading.local):
    """What the stock broker takes for its pool: the connection that this thread enqueues on.

    There is one for each hint, so it can't run dry, and none between hints.
    """

    minconn = 0
    """After a lost connection the stock broker checks the idle ones. There are none."""

    connection: Connection

    def getconn(self) -> Connection:
        if self.connection.closed:
            # Found lost just now. dramatiq-pg would ask ten times, with waits of up to 30 s.
            raise PoolError("the connection was lost")
        return self.connection

    def putconn(self, connection: Connection) -> None:
        """Do nothing: whoever lent it closes it."""


def _waiting(connection: Connection, queue_name: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM dramatiq.queue WHERE state = 'queued' AND queue_name = %s LIMIT %s",
            (queue_name, HINTS_ENOUGH),
        )
        return cursor.rowcount


@contextmanager
def _as_lost_connection() -> Generator[None]:
    """Make any error of the database one that dramatiq knows: it starts the consumer again in 3 s."""
    try:
        yield
    except psycopg2.Error as fault:
        raise BrokerConnectionError(type(fault).__name__) from fault


def build(url: str) -> HintBroker:
    """Build the broker. Nothing is connected yet: a consumer will hold one connection, a hint none."""
    # The broker stores times in the session's zone as if they were UTC.
    options = f"{conninfo_to_dict(url).get('options', '')} -c timezone=UTC".strip()
    dsn = conninfo(url, "mail-service broker")
    return HintBroker(partial(psycopg2.connect, dsn, options=options))


def install_schema(url: str) -> bool:
    """Create the broker's schema where it is missing; says whether it did. Safe beside a twin."""
    connection = psycopg2.connect(url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (7_205_519_340_026_415,))
            cursor.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.queue",))
            if cursor.fetchone() != (None,):
                return False
            cursor.execute(generate_init_sql(SCHEMA))
            return True
    finally:
        connection.close()
