"""A database that accepts and never answers, as in a failover: every backend is stopped, none is gone.

Refused connections are a journey (``tests/journeys/test_kills.py``); this one takes its time.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
import urllib3

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from tests.journeys.town import Town

STOPS_WITHIN = 25
EMAILS = 3


@dataclass
class Seen:
    """How the processes took it."""

    clock: int
    worker: int
    alarms: list[dict[str, Any]]
    answer: int | None
    """Status of a request made meanwhile; None when there was none within 20 s."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Freeze the database under three calls and a request, and stop worker and clock."""
    with (
        EmbeddedPostgres() as postgres,
        Town(
            postgres,
            template=None,
            directory=tmp_path_factory.mktemp("town"),
            settings={"SES_READ_TIMEOUT": "4", "LEASE_SECONDS": "9"},
        ) as town,
    ):
        town.release()
        web, worker, clock = town.start("web"), town.start("worker"), town.start("clock")
        town.wait_ready(web)
        town.subscribe()
        worker.wait_for("worker.started")
        clock.wait_for("clock.started")
        town.sandbox.knobs(answer_delay_seconds=1)
        for _ in range(EMAILS):
            town.sign_up()
        town.until(lambda: len(town.calls()) == EMAILS, "three calls are in flight")
        postmaster = psutil.Process(postgres.postmaster_pid)
        frozen = [postmaster, *postmaster.children(recursive=True)]
        answers: list[int] = []

        def ask() -> None:
            try:
                answers.append(town.api.post("/v1/accounts", {"email": town.address()}).status)
            except urllib3.exceptions.ReadTimeoutError:
                return

        client = threading.Thread(target=ask)
        for process in frozen:
            process.suspend()
        try:
            client.start()
            begun = time.monotonic()
            for program in (worker, clock):
                program.signal_group(signal.SIGTERM, times=2)
            ended = [
                program.wait(STOPS_WITHIN - (time.monotonic() - begun))
                for program in (clock, worker)
            ]
            client.join(30)
        finally:
            for process in frozen:
                if process.is_running():
                    process.resume()
        return Seen(*ended, worker.records("alarm"), answers[0] if answers else None)


def test_a_clock_stops_in_time(seen: Seen) -> None:
    assert seen.clock == 0


def test_a_worker_stops_in_time_and_says_what_it_could_not_record(seen: Seen) -> None:
    lost = [line for line in seen.alarms if line["alarm"] == "result_not_recorded"]
    assert len(lost) == EMAILS
    assert all(line["provider_message_id"] for line in lost)


def test_the_api_answers_503_in_time(seen: Seen) -> None:
    assert seen.answer == 503
