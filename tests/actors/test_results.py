"""What calls ended in is recorded, or held, or told: never dropped, whatever can't be recorded beside it."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from structlog.testing import capture_logs

from actors.drain import Drain
from actors.results import Results
from mail_service.domain.outcomes import Accepted, Outcome
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store.line import Line
from mail_service.workflows import dispatch
from mail_service.workflows.dispatch import Ended
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import call, write_email

BAD = Accepted(provider_message_id="m-\0")
"""No outcome of ours: PostgreSQL takes no such text."""


class Flickering(Line):
    """A database that is there for so many transactions, then away until told."""

    there: int | None = None

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection]:
        if self.there == 0:
            raise Unavailable("away")
        if self.there is not None:
            self.there -= 1
        with super().connected() as connection:
            yield connection


@pytest.fixture
def line(database_url: str) -> Iterator[Flickering]:
    line = Flickering(database_url, name="drain")
    yield line
    line.close()


@pytest.fixture
def ended(rt: Runtime, mailer: ScriptedMailer) -> Callable[..., list[Ended]]:
    """Send as many mails as outcomes are given."""

    def send(*outcomes: Outcome) -> list[Ended]:
        mailer.answers(*outcomes)
        for _ in outcomes:
            write_email(rt, f"order-{len(mailer.calls)}-{time.monotonic_ns()}")
        return [call(rt, claim) for claim in dispatch.take(rt, len(outcomes))]

    return send


def accepted(*names: str) -> list[Accepted]:
    return [Accepted(provider_message_id=name) for name in names]


def recorded(sql: Sql) -> set[str]:
    found = sql.one(
        "SELECT array_agg(provider_message_id) FROM mail_service.send_attempts"
        " WHERE state = 'accepted'"
    )
    return set(found or [])


def test_a_result_that_cannot_be_recorded_keeps_neither_those_beside_it_nor_those_after_it(
    rt: Runtime, line: Flickering, ended: Callable[..., list[Ended]], sql: Sql
) -> None:
    results = Results(replace(rt, db=line))
    results.add(ended(*accepted("m-1"), BAD, *accepted("m-2")))
    results.record()
    assert recorded(sql) == {"m-1", "m-2"}
    due = results.seconds_until_due()
    assert due is not None
    assert due > 1
    results.add(ended(*accepted("m-3")))
    now = results.seconds_until_due()
    assert now is not None
    assert now <= 0
    with capture_logs() as logs:
        results.record()
    assert recorded(sql) == {"m-1", "m-2", "m-3"}
    assert not [one for one in logs if one.get("alarm") == "result_unusable"], "not tried each time"
    assert results, "the bad one is held for as long as the process lives"


@pytest.mark.parametrize("there", range(1, 6))
def test_whatever_was_not_recorded_when_the_database_went_away_is_told(
    there: int, rt: Runtime, line: Flickering, ended: Callable[..., list[Ended]], sql: Sql
) -> None:
    """Also where it goes in the middle of recording one by one, because one can't be."""
    results = Results(replace(rt, db=line))
    results.add(ended(BAD, *accepted("m-1", "m-2", "m-3")))
    line.there = there
    results.record()
    due = results.seconds_until_due()
    assert due is not None
    assert due > 0, "it is not asked again at once"
    with capture_logs() as logs:
        results.tell()
    told = {one["provider_message_id"] for one in logs}
    assert told | recorded(sql) == {"m-\0", "m-1", "m-2", "m-3"}
    assert not told & recorded(sql)
    assert not results


def test_what_was_held_while_the_database_was_away_is_recorded_when_it_is_back(
    rt: Runtime, line: Flickering, ended: Callable[..., list[Ended]], sql: Sql
) -> None:
    results = Results(replace(rt, db=line))
    results.add(ended(BAD, *accepted("m-1", "m-2", "m-3")))
    for line.there in (3, 0, None):
        due = results.seconds_until_due()
        assert due is not None
        time.sleep(max(0.0, due))
        results.record()
    assert recorded(sql) == {"m-1", "m-2", "m-3"}


def test_a_drain_that_stops_with_a_result_that_cannot_be_recorded_waits_and_does_not_spin(
    runtime_of: Callable[..., Runtime], rt: Runtime, mailer: ScriptedMailer, database_url: str
) -> None:
    class Counting(Line):
        waits = 0

        def wait(self, seconds: float, waker: int) -> bool:
            self.waits += 1
            return super().wait(seconds, waker)

    mailer.answers(BAD)
    write_email(rt)
    line = Counting(database_url, name="drain")
    drain = Drain(runtime_of(SEND_CONCURRENCY="4"), line, stop_within_seconds=1)
    thread = threading.Thread(target=drain.run)
    thread.start()
    until = time.monotonic() + 20
    while not drain._results:  # pyright: ignore
        assert time.monotonic() < until
        time.sleep(0.01)
    line.waits = 0
    drain.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert line.waits < 100  # 90,000 in a second where it does not wait
