"""``kill -9``: of a worker in the middle of a call, and of Postgres under everybody."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import urllib3

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.sandbox.signing import Signer
from tests.journeys.conftest import Build
from tests.journeys.town import Town

HEALS_WITHIN = 10


@pytest.fixture(scope="module")
def town(build: Build) -> Town:
    """Web and clock; each test brings its workers. A call may take two seconds."""
    town = build(SES_READ_TIMEOUT="2", LEASE_SECONDS="6", SEND_CONCURRENCY="3")
    town.web()
    town.subscribe()
    town.clock()
    return town


def test_emails_of_a_killed_worker_fall_into_doubt_and_the_rest_goes_on(town: Town) -> None:
    # The calls of an "ooto" stay without evidence; a "success" is proved by its Send event.
    town.sandbox.knobs(
        answer_delay_seconds=1.5,
        hold_events=["Send", "Delivery", "Bounce"],
        hold_local_parts=["ooto"],
    )
    unproved, proved, lost = town.sign_up("ooto"), town.sign_up(), town.sign_up("blackhole")
    victim = town.worker()
    town.until(lambda: len(town.calls()) == 3, "three calls are in flight")
    rest = [town.sign_up() for _ in range(5)]
    victim.kill9()
    town.sandbox.knobs(answer_delay_seconds=0)
    begun = time.monotonic()
    heir = town.worker()
    for email in rest:
        town.wait_state(email, "submitted")
    lease_and_sweep = 6 + 1
    for email in (unproved, lost):
        doubtful = town.wait_state(email, "ambiguous", seconds=lease_and_sweep + 3)
        assert [(a["state"], a["error_class"]) for a in doubtful["attempts"]] == [
            ("unknown", "lease_expired")
        ]
        assert doubtful["reason"] == "lease_expired"
    known = town.wait_state(proved, "submitted", seconds=3)
    (attempt,) = known["attempts"]
    assert attempt["resolved_by"] == "event"
    assert time.monotonic() - begun < lease_and_sweep + 8
    town.sandbox.knobs(hold_events=[], hold_local_parts=[])
    town.sandbox.release()
    town.wait_state(unproved, "submitted")
    assert town.email(lost)["state"] == "ambiguous"
    assert [len(town.calls(email)) for email in (unproved, proved, lost)] == [1, 1, 1]
    town.check_tags_once()
    heir.end()


@pytest.fixture
def durable(signer: Signer, tmp_path: Path) -> Iterator[Town]:
    """A whole formation on a Postgres of its own, fsync and all."""
    with (
        EmbeddedPostgres() as postgres,
        Town(postgres, template=None, directory=tmp_path, signer=signer) as town,
    ):
        town.release()
        programs = [town.start(name) for name in ("web", "worker", "clock")]
        town.wait_ready(programs[0])
        town.subscribe()
        programs[1].wait_for("worker.started")
        yield town


def kill9(postgres: EmbeddedPostgres) -> None:
    """Kill the postmaster and all its children."""
    children = psutil.Process(postgres.postmaster_pid).children(recursive=True)
    postgres.kill9()
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


def test_what_was_answered_2xx_survives_postgres_and_everybody_heals(durable: Town) -> None:
    town, postgres = durable, durable.postgres
    assert [
        row["setting"]
        for row in town.sql(
            "SELECT setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit') ORDER BY name"
        )
    ] == ["on", "on"]
    town.sandbox.knobs(delivery_retries=40, delivery_retry_seconds=0.25)
    town.wait_status(town.sign_up(), "delivered")
    email = town.sign_up()
    kill9(postgres)
    begun = time.monotonic()
    down = town.api.post("/v1/accounts", {"email": town.address()})
    assert down.status == 503
    assert int(down.headers["Retry-After"]) > 0
    assert time.monotonic() - begun < 10
    assert town.sandbox.publish("{}", endpoint=town.webhook)["status"] == 503
    postgres.start()
    begun = time.monotonic()
    assert (
        town.value("SELECT count(*) FROM mail_service.email_outbox WHERE id = %s", email["id"]) == 1
    )

    def sign_up() -> dict[str, str] | None:
        try:
            answer = town.api.post("/v1/accounts", {"email": town.address()})
        except urllib3.exceptions.HTTPError:
            return None
        return answer.json["email"] if answer.status == 201 else None

    fresh = town.until(sign_up, "the API takes sign-ups again", HEALS_WITHIN)
    town.wait_status(fresh, "delivered", HEALS_WITHIN)
    foreign = json.dumps({"eventType": "Send", "mail": {"messageId": "theirs"}, "send": {}})
    assert town.sandbox.publish(foreign, endpoint=town.webhook)["status"] == 200
    town.until(
        lambda: town.value(
            # Counted anew since the crash.
            "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'dramatiq.queue'::regclass"
        ),
        "the clock enqueues again",
        HEALS_WITHIN,
    )
    town.until(
        lambda: town.value(
            "SELECT at > now() - interval '2 s' FROM mail_service.heartbeats WHERE name = 'sweep'"
        ),
        "sweeps are done again",
        HEALS_WITHIN,
    )
    healed = time.monotonic() - begun
    assert healed < HEALS_WITHIN, f"healed only after {healed:.1f} s"
    assert [program.running for program in town.programs] == [False, True, True, True]
    # The email written just before may have been in a call, which is recorded later, or its claim
    # may have been committed without an answer: then no call was made, and nobody may say so.
    town.until(
        lambda: (
            town.email(email)["state"] == "submitted"
            or (town.email(email)["state"] == "ambiguous" and not town.calls(email))
        ),
        "the email of that moment is submitted, or in doubt without a call",
    )
    town.check_tags_once()
