"""The stock broker and ours on one table, and a look at what they leave there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dramatiq
import psycopg
import pytest
from dramatiq.broker import Consumer
from dramatiq_pg import PostgresBroker
from dramatiq_pg.utils import make_pool
from psycopg.conninfo import conninfo_to_dict

from actors import broker as brokers


def hint() -> dramatiq.Message[Any]:
    """Give a hint like the clock's."""
    return dramatiq.Message(
        queue_name=brokers.QUEUE, actor_name="sweep", args=(), kwargs={}, options={}
    )


def eventually(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until it is true."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


@contextmanager
def working(broker: dramatiq.Broker) -> Iterator[dramatiq.Worker]:
    """Run dramatiq's worker on the queue of hints, as our worker process does."""
    worker = dramatiq.Worker(broker, queues={brokers.QUEUE}, worker_threads=1, worker_timeout=1000)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(timeout=2000)


class Table:
    """The broker's table, looked at from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True, application_name="tests")

    def sql(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement."""
        cursor = self._connection.execute(query, parameters)  # pyright: ignore
        return cursor.fetchall() if cursor.description else []

    def fill(self, number: int) -> None:
        """Write so many hints, and announce none."""
        with self._connection.cursor() as cursor:
            rows = [
                (one.message_id, one.encode().decode()) for one in (hint() for _ in range(number))
            ]
            cursor.executemany(
                "INSERT INTO dramatiq.queue (message_id, queue_name, state, message)"
                " VALUES (%s, 'mail', 'queued', %s)",
                rows,
            )

    def states(self) -> list[str]:
        """Give the state of every row."""
        return [state for (state,) in self.sql("SELECT state::text FROM dramatiq.queue")]

    def session_locks(self) -> int:
        """Count the advisory locks that are held."""
        (row,) = self.sql(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        return row[0]

    def connections(self, name: str) -> int:
        """Count the connections of this name."""
        (row,) = self.sql(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = %s",
            name,
        )
        return row[0]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@pytest.fixture
def table(shared_url: str) -> Iterator[Table]:
    """The table, empty."""
    table = Table(shared_url)
    table.sql("TRUNCATE dramatiq.queue")
    yield table
    table.close()


@pytest.fixture
def stock(table: Table) -> Iterator[Callable[..., PostgresBroker]]:
    """Builds dramatiq-pg's broker as it comes."""
    built: list[PostgresBroker] = []

    def build(url: str = table.url, **pool: object) -> PostgresBroker:
        parameters = {**conninfo_to_dict(url), "application_name": "stock"} | pool
        broker = PostgresBroker(
            pool=make_pool(parameters), results=False, schema="dramatiq", prefix="", middleware=[]
        )
        built.append(broker)
        return broker

    yield build
    for broker in built:
        if not broker.pool.closed:
            broker.pool.closeall()


@pytest.fixture
def ours(table: Table) -> brokers.HintBroker:
    """Our broker."""
    return brokers.build(table.url)


@pytest.fixture
def consumer_of() -> Iterator[Callable[..., Consumer]]:
    """Gives a broker's consumer of hints, as dramatiq's worker asks for one; closed at the end."""
    given: list[Consumer] = []

    def consume(broker: dramatiq.Broker, prefetch: int = 2, timeout: int = 100) -> Consumer:
        consumer = broker.consume(brokers.QUEUE, prefetch=prefetch, timeout=timeout)
        given.append(consumer)
        return consumer

    yield consume
    for consumer in given:
        with suppress(Exception):
            consumer.close()


class Dice:
    """Stands for the stock broker's dice: shows how often they must fall on zero, and lets them."""

    def __init__(self) -> None:
        self.sides: set[int] = set()
        self.falls = 1

    def __call__(self, low: int, high: int) -> int:
        assert low == 0
        self.sides.add(high + 1)
        return self.falls


@pytest.fixture
def dice(monkeypatch: pytest.MonkeyPatch) -> Dice:
    """The stock broker's dice. They fall badly, as they do but for one time in 301."""
    dice = Dice()
    monkeypatch.setattr("dramatiq_pg.broker.randint", dice)
    return dice
