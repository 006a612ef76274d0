"""The drain, run for real on its own thread, with a scripted provider."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from actors.drain import Drain
from mail_service.domain.outcomes import Accepted, Held, HoldScope, Outcome
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store.line import Line
from mail_service.workflows import dispatch, operate
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import look, sign_up, write_email

Running = Callable[..., "contextmanager[Drain]"]


def wait_until(true: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def running(runtime_of: Callable[..., Runtime], database_url: str) -> Callable[..., object]:
    @contextmanager
    def run(**changes: str) -> Iterator[tuple[Drain, Runtime]]:
        rt = runtime_of(**({"SEND_CONCURRENCY": "4"} | changes))
        drain = Drain(rt, Line(database_url, name="drain"), stop_within_seconds=5)
        thread = threading.Thread(target=drain.run)
        thread.start()
        try:
            yield drain, rt
        finally:
            drain.stop()
            thread.join(10)
            assert not thread.is_alive()

    return run


def count(sql: Sql, state: str) -> int:
    return int(
        sql.one(
            "SELECT count(*) FROM mail_service.email_outbox WHERE state = %s::mail_service.email_state",
            state,
        )
    )


def test_it_sends_whatever_is_due_in_waves(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    for n in range(40):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))
    with running():
        wait_until(lambda: count(sql, "submitted") == 40)
    assert len({call.request_tag for call in mailer.calls}) == 40


def test_a_nudge_wakes_it_long_before_its_poll(
    running: Running, rt: Runtime, sql: Sql, database_url: str
) -> None:
    with running() as (drain, _):
        wait_until(lambda: drain._poll_at > time.monotonic() + 4)  # pyright: ignore
        sign_up(rt)
        begun = time.monotonic()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("NOTIFY mail_service_due")
        wait_until(lambda: count(sql, "submitted") == 1, seconds=3)
        assert time.monotonic() - begun < 3


def test_a_hint_of_the_broker_wakes_it(running: Running, rt: Runtime, sql: Sql) -> None:
    with running() as (drain, _):
        wait_until(lambda: drain._poll_at > time.monotonic() + 4)  # pyright: ignore
        sign_up(rt)
        drain.wake()
        wait_until(lambda: count(sql, "submitted") == 1, seconds=3)


def test_the_first_probe_of_a_hold_does_not_wait_for_a_poll(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    mailer.answers(Held(scope=HoldScope.ACCOUNT, error_class="sending_paused"))
    with running(RETRY_BASE_SECONDS="0.1") as (drain, _):
        wait_until(lambda: drain._probe_at > time.monotonic() + 4)  # pyright: ignore
        sign_up(rt)
        drain.wake()
        wait_until(lambda: count(sql, "submitted") == 1, seconds=3)


def test_stopping_lets_calls_end_and_gives_unused_leases_back(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    for n in range(8):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))
    go_on = threading.Event()

    def slow(email: OutgoingEmail) -> Outcome:
        assert go_on.wait(10)
        return Accepted(provider_message_id=email.request_tag)

    mailer.answers(*[slow] * 8)
    with running() as (drain, _):
        wait_until(lambda: len(mailer.calls) == 4)
        leased = count(sql, "sending")
        drain.stop()
        drain.stop()
        go_on.set()
    assert leased == 5  # four calls and a quarter more
    assert len(mailer.calls) == 4
    assert (count(sql, "submitted"), count(sql, "pending"), count(sql, "ambiguous")) == (4, 4, 0)
    assert sql.one("SELECT count(*) FROM mail_service.send_attempts WHERE state = 'released'") == 1


def test_a_free_slot_does_not_wait_for_the_drain(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql, database_url: str
) -> None:
    for n in range(6):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))
    go_on = threading.Semaphore(0)

    def slow(email: OutgoingEmail) -> Outcome:
        assert go_on.acquire(timeout=10)
        return Accepted(provider_message_id=email.request_tag)

    mailer.answers(*[slow] * 6)
    with running(), psycopg.connect(database_url) as connection:
        wait_until(lambda: len(mailer.calls) == 4)
        # The next claim waits for this lock, and with it the drain.
        connection.execute("SELECT FROM mail_service.send_rate FOR UPDATE")
        go_on.release()
        wait_until(lambda: len(mailer.calls) == 5)
        assert count(sql, "submitted") == 0
        connection.rollback()
        go_on.release(5)
        wait_until(lambda: count(sql, "submitted") == 6)


def test_a_refusal_that_opens_a_hold_is_recorded_before_more_is_claimed(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    for n in range(20):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))
    mailer.answers(*[Held(scope=HoldScope.ACCOUNT, error_class="sending_paused")] * 20)
    with running(RETRY_BASE_SECONDS="30"):
        wait_until(
            lambda: (
                sql.one("SELECT count(*) FROM mail_service.holds") == 1
                and count(sql, "pending") == 20
            )
        )
    assert len(mailer.calls) == 5  # four at once, and the one leased ahead


def test_a_claim_that_waited_long_for_its_slot_is_looked_at_again(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    for n in range(5):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))
    go_on = threading.Event()

    def slow(email: OutgoingEmail) -> Outcome:
        assert go_on.wait(10)
        return Accepted(provider_message_id=email.request_tag)

    mailer.answers(*[slow] * 4)
    with running():
        wait_until(lambda: len(mailer.calls) == 4)
        called = {address for call in mailer.calls for address in call.to}
        (waits,) = {f"a{n}@example.com" for n in range(5)} - called
        operate.suppress(rt, address=waits, note=None, by="test")
        time.sleep(dispatch.CHECK_GOOD_FOR_SECONDS + 0.1)  # calls as slow as that
        go_on.set()
        wait_until(lambda: count(sql, "suppressed") == 1 and count(sql, "submitted") == 4)
    assert len(mailer.calls) == 4


def test_one_result_that_cannot_be_recorded_does_not_keep_the_others(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    for n in range(4):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))
    together = threading.Barrier(4)

    def answer(message_id: str) -> Callable[[OutgoingEmail], Outcome]:
        def give(email: OutgoingEmail) -> Outcome:
            together.wait(5)
            return Accepted(provider_message_id=message_id)

        return give

    mailer.answers(answer("m-1"), answer("m-\0"), answer("m-3"), answer("m-4"))
    with running():
        wait_until(lambda: count(sql, "submitted") == 3)
    assert count(sql, "sending") == 1


def test_a_row_held_from_outside_delays_its_own_result_only(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql, database_url: str
) -> None:
    held = sign_up(rt).email.id
    write_email(rt, "other", to=("bob@example.com",))
    locked = threading.Event()

    with psycopg.connect(database_url) as connection:

        def lock_then_accept(email: OutgoingEmail) -> Outcome:
            connection.execute(
                "SELECT FROM mail_service.email_outbox WHERE id = %s FOR UPDATE", (held,)
            )
            locked.set()
            return Accepted(provider_message_id="m-1")

        mailer.answers(lock_then_accept)
        with running():
            wait_until(lambda: locked.is_set() and count(sql, "submitted") == 1)
            assert look(rt, held).email.state == "sending"
            connection.rollback()
            wait_until(lambda: count(sql, "submitted") == 2)


def test_a_drain_that_misses_the_sweep_sweeps_itself(
    running: Running, rt: Runtime, sql: Sql
) -> None:
    sign_up(rt)
    assert dispatch.take(rt, 1)
    sql.advance(61)
    with running(SWEEP_SECONDS="0.1"):
        wait_until(lambda: count(sql, "ambiguous") == 1)


def test_it_heals_when_its_connection_is_cut(running: Running, rt: Runtime, sql: Sql) -> None:
    with running() as (drain, _):
        wait_until(lambda: drain._poll_at > 0)  # pyright: ignore
        sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'drain'"
        )
        sign_up(rt)
        drain.wake()
        wait_until(lambda: count(sql, "submitted") == 1)


def test_a_results_loss_of_the_database_is_held_and_recorded_later(
    running: Running, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    sign_up(rt)

    def cut(email: OutgoingEmail) -> Outcome:
        sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'drain'"
        )
        return Accepted(provider_message_id="m-1")

    mailer.answers(cut)
    with running():
        wait_until(lambda: count(sql, "submitted") == 1)
    assert len(mailer.calls) == 1
