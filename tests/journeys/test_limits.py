"""What the standard formation needs at full load: connections, memory, and no open transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
import psycopg
import pytest

from tests.journeys.conftest import Build
from tests.journeys.town import Town

CONNECTIONS = 16
MEGABYTES = 512
IDLE_IN_TRANSACTION_SECONDS = 1.0
EMAILS = 300


@dataclass
class Samples:
    """The worst that was seen."""

    taken: int = 0
    connections: int = 0
    idle_in_transaction: float = 0.0
    megabytes: float = 0.0
    names: dict[str, int] = field(default_factory=dict)


_LOOK = """
SELECT application_name,
       CASE WHEN state LIKE 'idle in transaction%%'
            THEN extract(epoch FROM clock_timestamp() - state_change)::float8 ELSE 0 END
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> 'tests'
"""


def resident(town: Town) -> float:
    """Give the resident megabytes of the largest process."""
    largest = 0.0
    for program in town.programs:
        first = psutil.Process(program.pid)
        for process in [first, *first.children(recursive=True)]:
            try:
                largest = max(largest, process.memory_info().rss / 2**20)
            except psutil.NoSuchProcess:
                continue
    return largest


@contextmanager
def sampled(town: Town) -> Iterator[Samples]:
    """Look at the database's backends every 50 ms, and at the processes now and then."""
    seen = Samples()
    stop = threading.Event()

    def watch() -> None:
        with psycopg.connect(town.url, autocommit=True, application_name="tests") as connection:
            while not stop.wait(0.05):
                backends = connection.execute(_LOOK).fetchall()
                if len(backends) > seen.connections:
                    seen.connections = len(backends)
                    seen.names = {}
                    for name, _ in backends:
                        seen.names[name] = seen.names.get(name, 0) + 1
                for _, idle in backends:
                    seen.idle_in_transaction = max(seen.idle_in_transaction, idle)
                if seen.taken % 20 == 0:
                    seen.megabytes = max(seen.megabytes, resident(town))
                seen.taken += 1

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(10)


@pytest.fixture(scope="module")
def seen(build: Build) -> Samples:
    """Put the standard formation under load with slow calls; gives the worst that was seen."""
    town = build(SES_READ_TIMEOUT="3", LEASE_SECONDS="8")
    programs = [town.start(name) for name in ("web", "worker", "worker", "clock")]
    town.wait_ready(programs[0])
    town.subscribe()
    for program in programs[1:3]:
        program.wait_for("worker.started")
    town.sandbox.knobs(answer_delay_seconds=1.2)
    with sampled(town) as samples:
        with ThreadPoolExecutor(16) as clients:
            emails = list(clients.map(lambda _: town.sign_up(), range(EMAILS)))
        # A few slow waves are enough to see a transaction that stays open over a call.
        town.until(lambda: len(town.calls()) >= 80, "two waves of slow calls", 20)
        town.sandbox.knobs(answer_delay_seconds=0)
        town.until(lambda: town.states() == {"submitted": len(emails)}, "all mail has gone out", 40)
        assert town.api.get("/v1/stats").status == 200
    town.check_tags_once()
    assert samples.taken > 20
    return samples


def test_the_standard_formation_uses_at_most_16_connections(seen: Samples) -> None:
    assert 0 < seen.connections <= CONNECTIONS, seen.names


def test_each_process_stays_under_512_megabytes(seen: Samples) -> None:
    assert 0 < seen.megabytes < MEGABYTES


def test_no_backend_is_idle_in_transaction_during_slow_calls(seen: Samples) -> None:
    assert seen.idle_in_transaction < IDLE_IN_TRANSACTION_SECONDS
