"""The broker of hints, with dramatiq's own worker on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import dramatiq
import pytest
from dramatiq.broker import Consumer
from dramatiq.errors import ConnectionError as BrokerConnectionError

from actors.broker import HINTS_ENOUGH, QUEUE, HintBroker, build
from mail_service.store.deadlines import Deadlines
from tests.actors.conftest import Table, eventually, hint, working

ConsumerOf = Callable[..., Consumer]


class Sweeps:
    """An actor that counts how often it ran, and waits where a test says so."""

    def __init__(self, broker: HintBroker, **options: object) -> None:
        self.ran = 0
        self.go_on = threading.Event()
        self.go_on.set()
        dramatiq.actor(self, actor_name="sweep", broker=broker, queue_name=QUEUE, **options)

    __name__ = "sweep"

    def __call__(self) -> None:
        self.ran += 1
        assert self.go_on.wait(10)


def test_a_hint_runs_its_actor_and_leaves_nothing(ours: HintBroker, table: Table) -> None:
    sweeps = Sweeps(ours)
    ours.enqueue(hint())
    with working(ours):
        eventually(lambda: sweeps.ran == 1)
        ours.enqueue(hint())
        eventually(lambda: sweeps.ran == 2)
    assert table.states() == []


def test_an_announcement_wakes_a_consumer_that_waits(
    ours: HintBroker, consumer_of: ConsumerOf
) -> None:
    ours.look_every = 30
    consumer = consumer_of(ours, timeout=60_000)
    assert next(consumer) is None
    ours.enqueue(hint())
    # Without an announcement this would come back without anything when the next look is due.
    assert next(consumer) is not None


def test_a_worker_whose_connection_is_cut_takes_hints_again(ours: HintBroker, table: Table) -> None:
    sweeps = Sweeps(ours)
    with working(ours):
        eventually(lambda: table.connections("mail-service broker") == 1)
        table.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'mail-service broker'"
        )
        ours.enqueue(hint())
        eventually(lambda: sweeps.ran == 1)


def test_whoever_is_held_up_by_the_server_is_cut_loose(
    ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    ours.deadlines = Deadlines(0.1)
    consumer = consumer_of(ours)
    table.sql("BEGIN")
    table.sql("LOCK dramatiq.queue")
    try:
        with pytest.raises(BrokerConnectionError, match=r"^OperationalError$"):
            next(consumer)
        with pytest.raises(BrokerConnectionError, match=r"^OperationalError$"):
            ours.enqueue(hint())
    finally:
        table.sql("ROLLBACK")
        ours.deadlines.stop()


def test_while_nobody_takes_them_hints_do_not_pile_up(ours: HintBroker, table: Table) -> None:
    for _ in range(20):
        ours.enqueue(hint())
    assert table.states() == ["queued"] * HINTS_ENOUGH
    # Of another application, on the same table.
    table.sql("UPDATE dramatiq.queue SET queue_name = 'theirs'")
    for _ in range(20):
        ours.enqueue(hint())
    assert len(table.states()) == 2 * HINTS_ENOUGH


def test_many_callers_at_once_are_all_served(ours: HintBroker, table: Table) -> None:
    faults: list[BaseException] = []

    def call() -> None:
        try:
            ours.enqueue(hint())
        except BaseException as fault:
            faults.append(fault)

    callers = [threading.Thread(target=call) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert faults == []
    assert len(table.states()) >= HINTS_ENOUGH


def test_each_hint_goes_to_one_of_two_consumers(
    ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    table.fill(6)
    one, other = consumer_of(ours, prefetch=9), consumer_of(ours, prefetch=9)
    taken = [next(consumer).message_id for consumer in (one, other) * 3]
    assert len(set(taken)) == 6
    assert (next(one), next(other)) == (None, None)


def test_a_hint_that_another_is_taking_holds_nobody_up(
    ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    table.fill(2)
    consumer = consumer_of(ours)
    table.sql("BEGIN")
    ((oldest,),) = table.sql(
        "SELECT message_id::text FROM dramatiq.queue ORDER BY mtime LIMIT 1 FOR UPDATE"
    )
    try:
        assert next(consumer).message_id not in (None, oldest)
    finally:
        table.sql("ROLLBACK")


def test_hints_of_another_application_are_left_alone(
    ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    table.fill(2)
    table.sql("UPDATE dramatiq.queue SET queue_name = 'theirs'")
    consumer = consumer_of(ours)
    assert next(consumer) is None
    assert table.states() == ["queued", "queued"]


def test_a_hint_taken_before_the_connection_was_lost_makes_no_room_twice(
    ours: HintBroker, consumer_of: ConsumerOf, table: Table
) -> None:
    table.fill(5)
    before, after = consumer_of(ours, prefetch=1), consumer_of(ours, prefetch=1, timeout=10)
    old = next(before)
    # dramatiq acknowledges at the consumer that it has now.
    for _ in range(3):
        after.ack(old)
    assert next(after) is not None
    assert next(after) is None


def test_what_a_hint_asks_of_nobody_is_dropped(ours: HintBroker, table: Table) -> None:
    sweeps = Sweeps(ours)
    ours.enqueue(dramatiq.Message(QUEUE, "nobody", (), {}, {}))
    with working(ours):
        eventually(lambda: table.states() == [])
        ours.enqueue(hint())
        eventually(lambda: sweeps.ran == 1)


@pytest.mark.parametrize("minutes", [-15, 15])
def test_a_hint_counts_whatever_the_clock_of_its_machine_says(
    ours: HintBroker, minutes: int
) -> None:
    sweeps = Sweeps(ours)
    wrong: Any = hint()
    ours.enqueue(wrong.copy(message_timestamp=wrong.message_timestamp + minutes * 60_000))
    with working(ours):
        eventually(lambda: sweeps.ran == 1)


def test_a_hint_is_never_delayed(ours: HintBroker, table: Table) -> None:
    sweeps = Sweeps(ours)
    with pytest.raises(ValueError, match="can't be delayed"):
        ours.enqueue(hint(), delay=1000)
    assert (table.states(), sweeps.ran) == ([], 0)
    assert ours.get_declared_delay_queues() == set()


def test_a_worker_stops_while_hints_wait_in_its_memory(ours: HintBroker, table: Table) -> None:
    sweeps = Sweeps(ours)
    sweeps.go_on.clear()
    table.fill(5)
    with working(ours):
        # One runs, one waits in memory, the others where they are.
        eventually(lambda: len(table.states()) == 3)
        sweeps.go_on.set()
        eventually(lambda: table.states() == [])
    assert 4 <= sweeps.ran <= 5


def test_nothing_is_connected_before_it_is_used() -> None:
    build("postgresql:///none?host=/nowhere").declare_queue(QUEUE)
