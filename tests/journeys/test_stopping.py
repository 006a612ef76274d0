"""SIGTERM, twice and to everybody, as a platform sends it: no call is cut, no email is in doubt."""

from __future__ import annotations

import signal
import threading
import time

import psycopg
import pytest

from tests.journeys.conftest import Build
from tests.journeys.programs import Program, free_port
from tests.journeys.town import Answer, Api, Town

STOPS_WITHIN = 25


@pytest.fixture(scope="module")
def town(build: Build) -> Town:
    """A web process, and calls that may take four seconds."""
    town = build(SES_READ_TIMEOUT="4", LEASE_SECONDS="9", SEND_CONCURRENCY="8")
    town.web()
    town.subscribe()
    return town


def terminate(program: Program) -> float:
    """Signal the whole group twice, and on and on; gives how long it took to end with status 0."""
    begun = time.monotonic()
    program.signal_group(signal.SIGTERM, times=2)
    while program.running and time.monotonic() - begun < STOPS_WITHIN:
        program.signal_group(signal.SIGTERM)
        time.sleep(0.05)
    assert program.wait(1) == 0, program.tail()
    return time.monotonic() - begun


def test_a_worker_lets_its_calls_end_and_releases_what_it_had_leased_ahead(town: Town) -> None:
    town.sandbox.knobs(slow_seconds=2)
    emails = [town.sign_up("slow") for _ in range(14)]
    worker = town.worker()
    town.until(lambda: len(town.calls()) >= 8, "eight calls are in flight")
    ids = [email["id"] for email in emails]

    def attempts() -> list[str]:
        rows = town.sql(
            "SELECT state::text FROM mail_service.send_attempts WHERE email_id = ANY(%s)"
            " ORDER BY state",
            ids,
        )
        return [row["state"] for row in rows]

    assert len(attempts()) == 10
    took = terminate(worker)
    assert took > 1
    assert attempts() == ["accepted"] * 8 + ["released"] * 2
    now = [town.email(email)["state"] for email in emails]
    assert {state: now.count(state) for state in set(now)} == {"submitted": 8, "pending": 6}
    assert len(town.calls()) == 8
    # What was released is due at once.
    town.sandbox.knobs(slow_seconds=0)
    another = town.worker()
    for email in emails:
        town.wait_state(email, "submitted")
    town.check_tags_once()
    assert terminate(another) < STOPS_WITHIN


def test_a_web_process_answers_the_request_that_it_has_begun(town: Town) -> None:
    port = free_port()
    web = town.start("web", PORT=str(port))
    api = Api(port, town.api.key)
    town.until(lambda: "Listening at" in web.text(), "it listens")
    answers: list[Answer] = []

    def sign_up() -> None:
        answers.append(api.post("/v1/accounts", {"email": town.address()}))

    client = threading.Thread(target=sign_up)
    with psycopg.connect(town.url, application_name="tests") as holder:
        holder.execute("LOCK TABLE mail_service.accounts IN SHARE ROW EXCLUSIVE MODE")
        client.start()
        town.until(
            lambda: town.value(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            ),
            "the request waits for our lock",
        )
        web.signal_group(signal.SIGTERM, times=2)
        town.until(lambda: "Handling signal: term" in web.text(), "web has heard the signal")
        web.signal_group(signal.SIGTERM)
        holder.commit()
    client.join(10)
    api.close()
    assert [answer.status for answer in answers] == [201]
    assert web.wait(STOPS_WITHIN) == 0, web.tail()
    # Not for the workers of the other tests.
    town.sql(
        "UPDATE mail_service.email_outbox SET next_attempt_at = now() + interval '1 day' WHERE id = %s",
        answers[0].json["email"]["id"],
    )


def test_a_clock_stops_at_once(town: Town) -> None:
    clock = town.clock()
    assert terminate(clock) < 5
