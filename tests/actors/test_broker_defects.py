"""What is wrong with the stock broker, each shown by running it, and that ours is free of it.

A test here takes the same steps with both. Where it fails at the stock broker, dramatiq-pg was
mended or changed: read its source again, and ``docs/decisions/0003-hints-not-jobs.md``.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import dramatiq
import dramatiq_pg.utils
import psycopg2.errors
import pytest
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import ConnectionError as BrokerConnectionError
from dramatiq.middleware import Middleware
from dramatiq_pg import PostgresBroker
from dramatiq_pg.broker import PostgresConsumer
from psycopg2.pool import PoolError

from actors.broker import HintBroker, build
from tests.actors.conftest import Dice, Table, eventually, hint, working

Stock = Callable[..., PostgresBroker]
ConsumerOf = Callable[..., Consumer]


def given(consumer: Consumer, times: int = 5) -> MessageProxy | None:
    """Ask for a hint so many times, as an idle worker does every second."""
    for _ in range(times):
        found = next(consumer)
        if found is not None:
            return found
    return None


def certain(consumer: Consumer) -> MessageProxy:
    """Give the hint that must come."""
    until = time.monotonic() + 10
    while True:
        found = next(consumer)
        if found is not None:
            return found
        assert time.monotonic() < until, "no hint came"


def listening(consumer: Any) -> Any:
    """Give the connection that hears announcements."""
    stock = isinstance(consumer, PostgresConsumer)
    return consumer.get_listen_conn() if stock else consumer._connection


def hear(consumer: Consumer) -> None:
    """Wait until an announcement has come over the wire; the consumer has not looked at it yet."""
    connection = listening(consumer)

    def heard() -> bool:
        connection.poll()
        return bool(connection.notifies)

    eventually(heard)


def cut(connection: Any) -> None:
    """Lose a connection the way networks do: without a word."""
    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def forbid_writing(connection: Any) -> None:
    """Make the next write on this connection fail."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")


# Wake-up


def test_a_hint_is_not_lost_with_a_connection(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    consumer = consumer_of(stock())
    assert given(consumer) is None
    cut(listening(consumer))
    stock().enqueue(hint())
    # It connects again without a word, listens, and doesn't look.
    assert given(consumer) is None
    assert table.states() == ["queued"]
    # Until the dice fall well, once in five minutes of idleness.
    assert 301 in dice.sides
    dice.falls = 0
    assert given(consumer) is not None
    consumer.close()
    table.sql("TRUNCATE dramatiq.queue")

    consumer = consumer_of(ours)
    assert given(consumer) is None
    cut(listening(consumer))
    ours.enqueue(hint())
    # It ends, and dramatiq starts another one, which begins with a look.
    with pytest.raises(BrokerConnectionError, match=r"^OperationalError$"):
        next(consumer)
    assert given(consumer_of(ours)) is not None


def test_a_hint_announced_already_is_not_waited_for(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    consumer = consumer_of(stock(), timeout=1000)
    assert next(consumer) is None
    stock().enqueue(hint())
    hear(consumer)
    # It has the announcement, and waits for another one until its time is up.
    begun = time.monotonic()
    assert next(consumer) is not None
    assert time.monotonic() - begun >= 1
    consumer.close()

    # In ours nothing could end this wait but what has come already.
    consumer = consumer_of(ours, timeout=60_000)
    ours.look_every = 60
    assert next(consumer) is None
    ours.enqueue(hint())
    hear(consumer)
    assert next(consumer) is not None


def test_a_hint_whose_announcement_was_lost_is_found_without_dice(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    consumer = consumer_of(stock())
    assert given(consumer) is None
    table.fill(1)
    assert given(consumer) is None
    assert 301 in dice.sides
    consumer.close()

    table.sql("TRUNCATE dramatiq.queue")
    ours.look_every = 0.3
    consumer = consumer_of(ours)
    assert given(consumer, 1) is None
    table.fill(1)
    certain(consumer)


def test_a_hint_with_an_id_in_use_runs(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    same = hint()

    def steps(broker: dramatiq.Broker) -> tuple[Consumer, MessageProxy | None]:
        table.sql("TRUNCATE dramatiq.queue")
        broker.enqueue(same)
        consumer = consumer_of(broker)
        running = certain(consumer)
        broker.enqueue(same)
        hear(consumer)
        again = next(consumer)
        consumer.ack(running)
        return consumer, again

    consumer, again = steps(stock())
    assert again is None
    assert given(consumer) is None
    assert table.states() == ["queued"]

    consumer, again = steps(ours)
    assert again == same
    assert table.states() == []


def test_a_worker_that_stops_leaves_nothing_that_nobody_hears_of(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    def steps(broker: dramatiq.Broker) -> Consumer:
        table.sql("TRUNCATE dramatiq.queue")
        stopping, idle = consumer_of(broker), consumer_of(broker)
        assert (next(stopping), next(idle)) == (None, None)
        broker.enqueue(hint())
        in_memory = certain(stopping)
        hear(idle)
        assert next(idle) is None
        stopping.requeue([in_memory])
        stopping.close()
        return idle

    idle = steps(stock())
    assert given(idle) is None
    assert table.states() == ["queued"]

    steps(ours)
    assert table.states() == []


# What is read and what is kept


def test_a_backlog_stays_in_the_table(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    table.fill(500)
    consumer = consumer_of(stock())
    certain(consumer)
    assert len(consumer.notifies) == 499
    consumer.close()

    table.sql("TRUNCATE dramatiq.queue")
    table.fill(500)
    consumer = consumer_of(ours, prefetch=2, timeout=10)
    certain(consumer)
    certain(consumer)
    # No more than dramatiq asked for, however often it comes.
    assert given(consumer) is None
    assert len(table.states()) == 498


def test_finished_hints_are_not_kept(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    def steps(broker: dramatiq.Broker) -> Consumer:
        table.sql("TRUNCATE dramatiq.queue")
        for end in ("ack", "nack"):
            broker.enqueue(hint())
            consumer = consumer_of(broker)
            getattr(consumer, end)(certain(consumer))
            assert given(consumer) is None
        return consumer

    consumer = steps(stock())
    assert sorted(table.states()) == ["done", "rejected"]
    # Its cleaning comes once in 28 idle hours, and then spares what is younger than thirty days.
    assert 100_001 in dice.sides
    dice.falls = 0
    table.sql("UPDATE dramatiq.queue SET mtime = now() - interval '29 days'")
    consumer.auto_purge()
    assert len(table.states()) == 2
    table.sql("UPDATE dramatiq.queue SET mtime = now() - interval '31 days'")
    consumer.auto_purge()
    assert table.states() == []

    steps(ours)
    assert table.states() == []


def test_times_are_right_whatever_the_sessions_zone(stock: Stock, table: Table) -> None:
    parameter = "&options=-c%20timezone%3DAmerica/New_York"
    off = "SELECT extract(epoch FROM now() - mtime)::int / 3600 FROM dramatiq.queue"
    stock(options="-c timezone=America/New_York").enqueue(hint())
    assert table.sql(off) in ([(-4,)], [(-5,)])
    table.sql("TRUNCATE dramatiq.queue")
    build(table.url + parameter).enqueue(hint())
    assert table.sql(off) == [(0,)]


# Locks


def test_no_session_lock_is_left_while_work_comes_in_without_a_break(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    def steps(broker: dramatiq.Broker) -> int:
        table.sql("TRUNCATE dramatiq.queue")
        table.fill(50)
        consumer = consumer_of(broker)
        for _ in range(50):
            consumer.ack(certain(consumer))
        held = table.session_locks()
        consumer.close()
        return held

    # Every one of them, until the server's lock table is full and nobody can even connect.
    broker = stock()
    assert steps(broker) == 50
    # Closed, it leaves them to whoever gets that connection next.
    assert table.session_locks() == 50
    broker.pool.closeall()
    eventually(lambda: table.session_locks() == 0)

    assert steps(ours) == 0


def test_a_hint_does_not_run_twice_when_a_session_is_lost(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table, dice: Dice
) -> None:
    def steps(broker: dramatiq.Broker, connection_of: Callable[[Any], Any]) -> MessageProxy | None:
        table.sql("TRUNCATE dramatiq.queue")
        broker.enqueue(hint())
        consumer = consumer_of(broker)
        certain(consumer)
        pid = connection_of(consumer).info.backend_pid
        assert table.sql("SELECT pg_terminate_backend(%s, 5000)", pid) == [(True,)]
        return given(consumer_of(broker))

    assert steps(stock(), lambda consumer: consumer.get_consume_conn()) is not None
    assert steps(ours, listening) is None


# The pool


def test_an_acknowledgement_needs_no_connection(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    broker = stock(maxconn=2)
    table.fill(1)
    consumer = consumer_of(broker)
    running = certain(consumer)
    with pytest.raises(PoolError, match="exhausted"):
        consumer.ack(running)
    # Its place in the prefetch, its lock and its row are never given back.
    assert len(consumer.in_processing) == 1
    assert table.session_locks() == 1
    assert table.states() == ["consumed"]
    broker.pool.closeall()

    table.sql("TRUNCATE dramatiq.queue")
    table.fill(2)
    consumer = consumer_of(ours, prefetch=1)
    running = certain(consumer)
    cut(listening(consumer))
    consumer.ack(running)
    # The place is free: it goes on to look, and meets the cut.
    with pytest.raises(BrokerConnectionError):
        next(consumer)
    assert len(table.states()) == 1


def test_the_pool_can_not_run_dry(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    broker = stock(maxconn=2)
    assert given(consumer_of(broker)) is None
    with pytest.raises(PoolError, match="exhausted"):
        broker.enqueue(hint())
    consumers = [consumer_of(ours) for _ in range(4)]
    assert [given(consumer, 1) for consumer in consumers] == [None] * 4
    ours.enqueue(hint())
    assert table.states() == ["queued"]
    # And a hint leaves no connection behind.
    eventually(lambda: table.connections("mail-service broker") == 4)


def test_a_full_prefetch_is_forgotten_once_there_is_room(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    def steps(broker: dramatiq.Broker) -> Consumer:
        table.sql("TRUNCATE dramatiq.queue")
        table.fill(3)
        consumer = consumer_of(broker, prefetch=1, timeout=10)
        running = certain(consumer)
        assert given(consumer, 4) is None
        consumer.ack(running)
        consumer.ack(certain(consumer))
        return consumer

    # The exponent of its back-off only grows: from the eighth time on it sleeps up to a second.
    assert steps(stock()).misses == 4
    # Ours waits for room itself, and nothing remembers that it had to.
    assert next(steps(ours)) is not None


# Whoever enqueues


def test_whoever_enqueues_is_told_of_a_fault_at_once(
    stock: Stock, ours: HintBroker, table: Table
) -> None:
    slept: list[float] = []
    table.sql("ALTER TABLE dramatiq.queue RENAME TO away")
    try:
        with pytest.raises(psycopg2.errors.UndefinedTable):
            PostgresBroker.enqueue.retry_with(sleep=slept.append)(stock(), hint())
        with pytest.raises(BrokerConnectionError, match=r"^UndefinedTable$"):
            ours.enqueue(hint())
    finally:
        table.sql("ALTER TABLE dramatiq.away RENAME TO queue")
    # Ten tries, with waits of up to half a minute.
    assert len(slept) == 9
    assert PostgresBroker.enqueue.retry.wait.max == 30


def test_nothing_tries_again_in_secret_to_connect(
    stock: Stock, ours: HintBroker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def connect(*_: object) -> Any:
        calls.append(1)
        raise psycopg2.OperationalError("gone")

    # The stock one tries ten times to get a connection, and does so ten times.
    slept: list[float] = []
    monkeypatch.setattr(dramatiq_pg.utils.getconn.retry, "sleep", slept.append)
    monkeypatch.setattr(PostgresBroker.enqueue.retry, "sleep", slept.append)
    broker = stock()
    broker.pool._connect = connect
    with pytest.raises(psycopg2.OperationalError):
        broker.enqueue(hint())
    assert len(slept) == 99

    calls.clear()
    slept.clear()
    with pytest.raises(BrokerConnectionError):
        HintBroker(connect).enqueue(hint())
    assert len(calls) == 1

    class Between(Middleware):
        """Does something to the connection after hints were counted and before one is enqueued."""

        def __init__(self, hurt: Callable[[Any], None]) -> None:
            self.hurt = hurt

        def before_enqueue(self, broker: Any, message: object, delay: object) -> None:
            self.hurt(broker.lent.connection)

    ours.add_middleware(Between(forbid_writing))
    with pytest.raises(BrokerConnectionError, match=r"^ReadOnlySqlTransaction$"):
        ours.enqueue(hint())
    assert slept == []
    ours.add_middleware(Between(cut))
    with pytest.raises(BrokerConnectionError):
        ours.enqueue(hint())
    assert len(slept) <= 1
    assert table.states() == []


# dramatiq's worker


def test_a_worker_holds_one_connection(stock: Stock, ours: HintBroker, table: Table) -> None:
    def holds(broker: dramatiq.Broker, name: str, connections: int) -> set[str]:
        dramatiq.actor(lambda: None, actor_name="sweep", broker=broker, queue_name="mail")
        with working(broker) as worker:
            eventually(lambda: table.connections(name) == connections)
            return set(worker.consumers)

    # The stock broker declares a delayed twin, and each has one to listen and one to take.
    assert holds(stock(), "stock", 4) == {"mail", "mail.DQ"}
    assert holds(ours, "mail-service broker", 1) == {"mail"}


def test_hints_that_can_not_be_read_block_no_others(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    def steps(broker: dramatiq.Broker) -> Consumer:
        table.sql("TRUNCATE dramatiq.queue")
        table.fill(1)
        table.sql("UPDATE dramatiq.queue SET message = '{}', mtime = now() - interval '1 hour'")
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever dramatiq says
            next(consumer_of(broker))
        return consumer_of(broker)

    with pytest.raises(Exception):  # noqa: B017, PT011
        next(steps(stock()))
    assert next(steps(ours)) is None


def test_a_short_time_out_does_not_spin(
    stock: Stock, ours: HintBroker, consumer_of: ConsumerOf
) -> None:
    assert consumer_of(stock(), timeout=999).timeout == 0
    consumer = consumer_of(ours, timeout=200)
    assert next(consumer) is None
    begun = time.monotonic()
    assert next(consumer) is None
    assert time.monotonic() - begun >= 0.2


def test_an_upgrade_is_read_before_it_is_used() -> None:
    # What the stock broker does beside this, ours would inherit unread.
    assert {name for name, value in vars(PostgresBroker).items() if callable(value)} == {
        *("__init__", "consume", "declare_queue", "enqueue"),
    }
    assert version("dramatiq-pg") == "0.12.0", "read its changes, then name the version here"
