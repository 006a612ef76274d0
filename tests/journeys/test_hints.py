"""The broker's table holds hints only: emptied, missing or never filled, all mail still goes out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mail_service import wiring
from mail_service.ports import TAG_NAME
from mail_service.settings import Process, Settings
from mail_service.store.pool import Database
from tests.journeys.conftest import Build
from tests.journeys.town import Town
from tests.steps import sign_up

GOES_OUT_WITHIN = 15


@pytest.fixture(scope="module")
def town(build: Build) -> Town:
    """Web and one worker. No clock."""
    town = build()
    web, worker = town.start("web"), town.start("worker")
    town.wait_ready(web)
    town.subscribe()
    worker.wait_for("worker.started")
    return town


@contextmanager
def emptying(town: Town) -> Iterator[None]:
    """Delete whatever stands in the broker's table, again and again."""
    stop = threading.Event()

    def empty() -> None:
        with psycopg.connect(town.url, autocommit=True, application_name="tests") as connection:
            while not stop.wait(0.02):
                connection.execute("DELETE FROM dramatiq.queue")

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def all_submitted(town: Town, emails: list[dict[str, Any]]) -> None:
    """Wait until all have gone out."""

    def look() -> bool:
        rows = town.sql(
            "SELECT 1 FROM mail_service.email_outbox WHERE id = ANY(%s) AND state = 'submitted'",
            [email["id"] for email in emails],
        )
        return len(rows) == len(emails)

    town.until(look, "all mail has gone out", GOES_OUT_WITHIN)
    town.check_tags_once()


def test_mail_goes_out_and_is_retried_while_the_brokers_table_is_emptied(town: Town) -> None:
    with emptying(town):
        clock = town.clock()
        emails = [town.sign_up() for _ in range(15)] + [town.sign_up("throttleonce")]
        all_submitted(town, emails)
        assert len(town.calls(emails[-1])) == 2
        clock.kill9()


def test_without_a_clock_a_lost_nudge_costs_a_poll_and_no_mail(town: Town) -> None:
    # Written by a runtime of the test's own, which tells nobody.
    settings = Settings.from_env(town.environment | {"DATABASE_URL": town.url}, Process.WEB)
    db = Database(town.url, name="tests", size=1)
    db.open()
    try:
        silent = replace(wiring.runtime(settings, Process.WEB, db))
        view = sign_up(silent, town.address())
    finally:
        db.close()
    all_submitted(town, [{"id": str(view.email.id)}])


def test_without_a_clock_a_drain_does_the_sweep(town: Town) -> None:
    town.until(
        lambda: town.sql(
            "SELECT 1 FROM mail_service.heartbeats WHERE name = 'sweep' AND at > now() - interval '9 s'"
        ),
        "somebody sweeps",
        GOES_OUT_WITHIN,
    )


def test_mail_goes_out_while_the_brokers_schema_is_missing(build: Build) -> None:
    town = build()
    web, old = town.start("web"), town.start("worker")
    town.wait_ready(web)
    old.wait_for("worker.started")
    town.sql("DROP SCHEMA dramatiq CASCADE")
    new, clock = town.start("worker"), town.start("clock")
    new.wait_for("worker.started")
    clock.wait_for("clock.started")
    all_submitted(town, [town.sign_up() for _ in range(5)])
    old.kill9()
    all_submitted(town, [town.sign_up() for _ in range(5)])
    assert (web.running, new.running, clock.running) == (True, True, True)
    # The release puts it back, and the clock's hints reach the worker again.
    town.release()
    taken = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relid = 'dramatiq.queue'::regclass"
    town.until(
        lambda: town.value(taken),
        "the worker takes hints again",
        20,
    )


def test_what_was_started_before_the_migration_heals_once_it_ran(build: Build) -> None:
    town = build(migrated=False)
    web, worker, clock = town.start("web"), town.start("worker"), town.start("clock")
    worker.wait_for("worker.started")
    clock.wait_for("clock.started")
    # Each has met the empty database.
    town.until(lambda: worker.records("alarm"), "the worker complains")
    town.until(lambda: clock.records("alarm"), "the clock complains")
    town.release()
    town.wait_ready(web, 10)
    town.subscribe()
    email = town.sign_up()
    town.wait_status(email, "delivered", 10)
    assert (web.running, worker.running, clock.running) == (True, True, True)


def test_two_workers_share_the_work_beside_two_clocks(build: Build) -> None:
    town = build(SEND_CONCURRENCY="4")
    web = town.start("web")
    workers = [town.start("worker") for _ in range(2)]
    clocks = [town.start("clock") for _ in range(2)]
    town.wait_ready(web)
    town.subscribe()
    for worker in workers:
        worker.wait_for("worker.started")
    for clock in clocks:
        clock.wait_for("clock.started")
    town.sandbox.knobs(answer_delay_seconds=0.1)
    emails = [town.sign_up() for _ in range(40)]
    all_submitted(town, emails)
    assert len(town.calls()) == len(emails)
    claimed = [
        {i for line in w.records("emails.claimed") for i in line["attempt_ids"].split()}
        for w in workers
    ]
    assert all(claimed)
    assert claimed[0] & claimed[1] == set()
    assert claimed[0] | claimed[1] == {call["tags"][TAG_NAME] for call in town.calls()}
    for program in [*workers, *clocks]:
        assert program.running
        assert program.records("alarm") == []
    # Hints don't pile up, however many clocks there are.
    assert town.value("SELECT count(*) FROM dramatiq.queue WHERE state = 'queued'") <= 6
