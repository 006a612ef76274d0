"""Connections, transactions and their one clock.

A transaction has a time: every statement and ``tx.now`` use ``mail_service.clock()``, which is the
database's transaction time. Nothing else in the rings asks what time it is.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, scalar_row
from psycopg_pool import PoolTimeout

from mail_service.errors import CommitUnknown, Impossible, Unavailable
from mail_service.store.session import NO_SCHEMA

Row = TypeVar("Row")
Answer = TypeVar("Answer")
Params = Mapping[str, Any] | Sequence[Any]

REPEATABLE = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    # Two transactions met at a unique key; the second run sees what the first one wrote.
    psycopg.errors.UniqueViolation,
)
REPEATS = 5

TOO_LATE = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.IdleInTransactionSessionTimeout,  # we were frozen ourselves; no OperationalError
)
"""A time limit of the server's ended a statement or its transaction: it was not done."""

TRANSACTION_SECONDS = 10.0
"""When a transaction's connection is cut from our side: the server is frozen, or it would have ended
the statement by itself before."""


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

    def connected(self) -> AbstractContextManager[psycopg.Connection]:
        """Give a connection for the block, which commits. What fails is rolled back."""
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        """Open a transaction; commit on leaving, roll back on an exception.

        Raises Unavailable when the database can't be reached or went away, CommitUnknown when it went
        away in answer to the commit.
        """
        with _faults_as_ours(), self.connected() as connection:
            tx = Tx(connection)
            yield tx
            _commit(connection)
        tx.committed()

    @contextmanager
    def snapshot(self) -> Generator[Tx]:
        """Open a transaction that writes nothing and sees one moment: for what is read in parts."""
        with self.transaction() as tx:
            tx.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield tx

    @contextmanager
    def statement(self) -> Generator[Tx]:
        """Open a transaction for one statement, which commits itself: a third of the round trips.

        For a look, and for a write that may be done twice. Raises CommitUnknown, which is Unavailable,
        where the database went away while it ran: it was done, or it was not.
        """
        tx: Tx | None = None
        with _faults_as_ours():
            try:
                with self.connected() as connection:
                    tx = Tx(connection)
                    connection.autocommit = True
                    try:
                        yield tx
                    finally:
                        if not connection.closed:
                            connection.autocommit = False
            except (psycopg.OperationalError, psycopg.InterfaceError) as lost:
                if tx is None or isinstance(lost, (*REPEATABLE, *TOO_LATE)):
                    raise
                raise CommitUnknown("the database is not reachable any more") from lost
        tx.committed()

    def transact(
        self,
        work: Callable[[Tx], Answer],
        *,
        found: Callable[[Tx], Answer | None] | None = None,
    ) -> Answer:
        """Do the work in a transaction, again where a twin made it fail; gives what it gives.

        ``work`` may run more than once, so it must touch nothing but the transaction. Where the answer
        to the commit was lost, ``found`` looks for what it wrote, in a new transaction; the work is
        never run again blindly.
        """
        try:
            return self._repeat(self.transaction, work)
        except CommitUnknown:
            if found is None:
                raise
            with self.transaction() as tx:
                written = found(tx)
            if written is None:
                raise
            return written

    def transact_one(self, work: Callable[[Tx], Answer]) -> Answer:
        """Do work that is one statement, commits itself and may be done twice."""
        return self._repeat(self.statement, work)

    def _repeat(
        self, opened: Callable[[], AbstractContextManager[Tx]], work: Callable[[Tx], Answer]
    ) -> Answer:
        for repeat in range(1, REPEATS):
            try:
                with opened() as tx:
                    return work(tx)
            except REPEATABLE:
                # Too short to be noticed, long enough for the other one to finish.
                time.sleep(0.01 * repeat)
        try:
            with opened() as tx:
                return work(tx)
        except (
            psycopg.errors.DeadlockDetected,
            psycopg.errors.SerializationFailure,
        ) as crowded:
            raise Unavailable("the database is too crowded to finish this") from crowded


@contextmanager
def _faults_as_ours() -> Generator[None]:
    """Make of what a driver and a server may say about themselves the one error that callers know."""
    try:
        yield
    except PoolTimeout as full:
        raise Unavailable("no database connection within the time limit") from full
    except TOO_LATE as late:
        raise Unavailable("the database took too long") from late
    except REPEATABLE:
        raise
    except (psycopg.OperationalError, psycopg.InterfaceError) as lost:
        raise Unavailable("the database is not reachable") from lost
    except (
        psycopg.errors.ReadOnlySqlTransaction,
        psycopg.errors.InsufficientPrivilege,
    ) as refused:
        # A failover in progress, or a plan that is over its limits.
        raise Unavailable("the database takes no writes") from refused
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as missing:
        raise Unavailable(NO_SCHEMA) from missing


@contextmanager
def rolled_back(connection: psycopg.Connection[Any]) -> Generator[None]:
    """Roll back when the block fails. A connection that can't even do that is of no use any more."""
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):
            connection.rollback()
        raise


def _commit(connection: psycopg.Connection[Any]) -> None:
    if connection.pgconn.transaction_status == TransactionStatus.INERROR:
        # COMMIT would roll back and say so to nobody.
        raise Impossible("a fault of the database was caught inside its transaction")
    try:
        connection.commit()
    except (psycopg.OperationalError, psycopg.InterfaceError) as lost:
        if isinstance(lost, REPEATABLE):
            raise
        raise CommitUnknown("the database went away in answer to a commit") from lost
