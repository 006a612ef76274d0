"""Connections, transactions and their one clock.

A transaction has a time: every statement and ``tx.now`` use ``mail_service.clock()``, which is the
database's transaction time. Nothing else in the rings asks what time it is.
"""

import select
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row, scalar_row
from psycopg.types.enum import EnumInfo, register_enum
from psycopg_pool import ConnectionPool, PoolTimeout

from mail_service.domain.events import EventKind, EventStatus
from mail_service.domain.sending import AttemptState, EmailState, OnAmbiguous
from mail_service.domain.suppression import SuppressionReason
from mail_service.errors import Unavailable

Row = TypeVar("Row")
Answer = TypeVar("Answer")
Params = Mapping[str, Any] | Sequence[Any]

ENUMS: Mapping[str, type[StrEnum]] = {
    "email_state": EmailState,
    "attempt_state": AttemptState,
    "ambiguity_policy": OnAmbiguous,
    "event_kind": EventKind,
    "event_status": EventStatus,
    "suppression_reason": SuppressionReason,
}
"""Native enums and the classes whose members are their labels, in the same order."""

REPEATABLE = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    # Two transactions met at a unique key; the second run sees what the first one wrote.
    psycopg.errors.UniqueViolation,
)
REPEATS = 5

CHANNEL = "mail_service_due"
"""Where the nudge is heard: NOTIFY without data, sent after mail was committed."""

NO_SCHEMA = "the schema is missing or old: run mail-service migrate"

_SESSION = """
SET TIME ZONE 'UTC';
SET statement_timeout = '15s';
SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '10s';
"""


class Tx:
    """One open transaction. Handed to store functions, which never commit."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._now: datetime | None = None
        self._afterwards: list[Callable[[], None]] = []

    @property
    def now(self) -> datetime:
        """The database's time of this transaction; asked for once, when first needed."""
        if self._now is None:
            self._now = self.value(datetime, "SELECT mail_service.clock()")
        return self._now

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Have something told once this transaction has committed; never if it does not."""
        self._afterwards.append(tell)

    def committed(self) -> None:
        """Tell what was to be told. For whoever committed."""
        for tell in self._afterwards:
            tell()

    def all(self, row: type[Row], query: LiteralString, params: Params = ()) -> list[Row]:
        """Give every row, as instances of ``row`` (columns and fields must agree exactly)."""
        with self._connection.cursor(row_factory=class_row(row)) as cursor:
            return cursor.execute(query, params).fetchall()

    def one(self, row: type[Row], query: LiteralString, params: Params = ()) -> Row | None:
        """Give the first row, or None."""
        with self._connection.cursor(row_factory=class_row(row)) as cursor:
            return cursor.execute(query, params).fetchone()

    def value(self, kind: type[Row], query: LiteralString, params: Params = ()) -> Row:
        """Give the one value of the one row that the statement always yields."""
        value = self.maybe(kind, query, params)
        if value is None:
            raise LookupError("the statement gave no row")
        return value

    def maybe(self, kind: type[Row], query: LiteralString, params: Params = ()) -> Row | None:
        """Give the one value of the first row, or None."""
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            value = cursor.execute(query, params).fetchone()
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, the statement gave {type(value).__name__}")
        return value

    def values(self, kind: type[Row], query: LiteralString, params: Params = ()) -> list[Row]:
        """Give the first column of every row."""
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(query, params).fetchall()

    def run(self, query: LiteralString, params: Params = ()) -> int:
        """Run a statement and give the number of rows it touched."""
        return self._connection.execute(query, params).rowcount


class Transactions:
    """Something that opens transactions on the database. Subclasses say on which connection."""

    def _connected(self) -> AbstractContextManager[psycopg.Connection]:
        """Give a connection in a transaction that ends with the block."""
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        """Open a transaction; commit on leaving, roll back on an exception.

        Raises Unavailable when the database can't be reached or went away.
        """
        try:
            with self._connected() as connection:
                tx = Tx(connection)
                yield tx
        except PoolTimeout as full:
            raise Unavailable("no database connection within the time limit") from full
        except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as late:
            raise Unavailable("the database took too long") from late
        except REPEATABLE:
            raise
        except (psycopg.OperationalError, psycopg.InterfaceError) as lost:
            raise Unavailable("the database is not reachable") from lost
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as missing:
            raise Unavailable(NO_SCHEMA) from missing
        tx.committed()

    def transact(self, work: Callable[[Tx], Answer]) -> Answer:
        """Do the work in a transaction, again where a twin made it fail; gives what it gives.

        ``work`` may run more than once, so it must touch nothing but the transaction.
        """
        for repeat in range(1, REPEATS):
            try:
                with self.transaction() as tx:
                    return work(tx)
            except REPEATABLE:
                # Too short to be noticed, long enough for the other one to finish.
                time.sleep(0.01 * repeat)
        with self.transaction() as tx:
            return work(tx)


def _conninfo(url: str, name: str) -> str:
    return make_conninfo(
        url,
        application_name=name,
        connect_timeout=5,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=2,
        tcp_user_timeout=10000,
    )


class _Session:
    """Makes a new connection ours: time limits, UTC, and enums read as their classes."""

    def __init__(self) -> None:
        self._enums: dict[str, EnumInfo] = {}

    def __call__(self, connection: psycopg.Connection) -> None:
        connection.execute(_SESSION)
        for name, members in ENUMS.items():
            info = self._enums.get(name) or EnumInfo.fetch(connection, f"mail_service.{name}")
            if info is None:
                raise psycopg.OperationalError(NO_SCHEMA)
            self._enums[name] = info
            register_enum(info, connection, members, mapping={m: m.value for m in members})
        connection.commit()


class Database(Transactions):
    """A sized pool of connections to one PostgreSQL."""

    def __init__(self, url: str, *, name: str, size: int, wait_seconds: float = 5) -> None:
        self._pool = ConnectionPool(
            _conninfo(url, name),
            min_size=0,
            max_size=size,
            timeout=wait_seconds,
            max_idle=60,
            open=False,
            name=name,
            configure=_Session(),
            # A restarted server is met here, not in the middle of somebody's request.
            check=ConnectionPool.check_connection,
            reconnect_timeout=5,
        )

    def open(self) -> None:
        """Start the pool. No connection is made before one is needed."""
        self._pool.open(wait=False)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close(timeout=2)

    def _connected(self) -> AbstractContextManager[psycopg.Connection]:
        return self._pool.connection()


class Line(Transactions):
    """One connection of a drain's own, on which it also listens for the nudge.

    Not for more than one thread. Connects when first used, and again after it was lost.
    """

    def __init__(self, url: str, *, name: str) -> None:
        self._url = _conninfo(url, name)
        self._prepare = _Session()
        self._connection: psycopg.Connection | None = None
        self._nudged = False

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def wait(self, seconds: float, waker: int) -> bool:
        """Sleep until nudged, until the descriptor ``waker`` is readable, or time is up.

        Says whether a nudge came, also one that came while a statement ran.
        """
        watched = [waker]
        connection = self._connection
        if connection is not None and not connection.closed:
            watched.append(connection.fileno())
        readable, _, _ = select.select(watched, [], [], 0 if self._nudged else max(0.0, seconds))
        if connection is not None and len(watched) > 1 and watched[1] in readable:
            try:
                for _ in connection.notifies(timeout=0):
                    self._nudged = True
            except psycopg.Error:
                # Lost while idle; the next transaction connects again.
                self.close()
        nudged, self._nudged = self._nudged, False
        return nudged

    def _hear(self, _: psycopg.Notify) -> None:
        self._nudged = True

    @contextmanager
    def _connected(self) -> Generator[psycopg.Connection]:
        connection = self._connection
        if connection is None or connection.closed or connection.broken:
            self.close()
            connection = psycopg.connect(self._url)
            try:
                self._prepare(connection)
                connection.execute(f"LISTEN {CHANNEL}")
                connection.commit()
            except BaseException:
                connection.close()
                raise
            connection.add_notify_handler(self._hear)
            self._connection = connection
        try:
            yield connection
            connection.commit()
        except BaseException:
            # A connection that can't even roll back is of no use any more.
            with suppress(psycopg.Error):
                connection.rollback()
            if connection.broken:
                self.close()
            raise
