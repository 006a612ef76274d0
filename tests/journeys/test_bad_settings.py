"""A process with bad settings ends at once and names each of them, and no secret."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from tests.journeys.programs import Program
from tests.journeys.town import TOPIC, Processes, canary

ENDS_WITHIN = 10

ALONE = {
    "SEND_CONCURRENCY": "none",
    "SES_READ_TIMEOUT": "-1",
    "SWEEP_SECONDS": "soon",
    "ADDRESS_KEY": canary("short")[:20],
    "LOG_LEVEL": "LOUD",
}
TOGETHER = {
    "DATABASE_URL": f"mysql://user:{canary('password')}@example.com/x",
    "LEASE_SECONDS": "3",
    "SNS_TOPIC_ARNS": f"{TOPIC},ours",
    "MAIL_FROM": "nobody",
}
MISSING = {
    "web": ["CONSOLE_SECRET", "SNS_TOPIC_ARNS"],
    "worker": ["SNS_TOPIC_ARNS"],
    "clock": ["DATABASE_URL"],
}


@pytest.fixture
def processes(postgres: EmbeddedPostgres, tmp_path: Path) -> Processes:
    """Processes on a database that is not there: none of these gets as far as that."""
    return Processes(
        url=postgres.url("nowhere"),
        sandbox_url="http://127.0.0.1:9",
        directory=tmp_path,
        marker=postgres.run.marker,
    )


def ended(program: Program) -> str:
    """Wait for its end, which must be soon and not well; gives what it said."""
    begun = time.monotonic()
    assert program.wait(ENDS_WITHIN) != 0
    assert time.monotonic() - begun < ENDS_WITHIN
    return program.text()


@pytest.mark.parametrize("bad", [ALONE, TOGETHER], ids=["alone", "together"])
def test_every_bad_setting_is_named_and_no_secret_is(
    processes: Processes, bad: dict[str, str]
) -> None:
    programs = [processes.start(name, **bad) for name in ("web", "worker", "clock")]
    try:
        for program in programs:
            text = ended(program)
            assert [name for name in bad if name not in text] == [], text
            assert [value for value in bad.values() if "canary" in value and value in text] == []
            assert "canary" not in text
            assert "Traceback" not in text
    finally:
        processes.stop()


def test_settings_that_are_wrong_together_are_named_beside_those_that_are_wrong_alone(
    processes: Processes,
) -> None:
    clock = processes.start("clock", **(ALONE | TOGETHER))
    try:
        text = ended(clock)
        assert [name for name in ALONE | TOGETHER if name not in text] == [], text
    finally:
        processes.stop()


def test_every_missing_setting_is_named(processes: Processes) -> None:
    programs = {
        name: processes.start(name, **dict.fromkeys(missing, ""))
        for name, missing in MISSING.items()
    }
    try:
        for name, program in programs.items():
            text = ended(program)
            assert [missing for missing in MISSING[name] if missing not in text] == [], text
    finally:
        processes.stop()


@pytest.mark.parametrize(
    ("name", "value"), [("fsync", "off"), ("synchronous_commit", "off")], ids=["fsync", "commit"]
)
def test_no_process_starts_on_a_database_that_may_forget_what_it_committed(
    name: str, value: str, tmp_path: Path
) -> None:
    with EmbeddedPostgres(settings={name: value}) as forgetful:
        processes = Processes(
            url=forgetful.url(),
            sandbox_url="http://127.0.0.1:9",
            directory=tmp_path,
            marker=forgetful.run.marker,
        )
        try:
            for program in [
                processes.start(process) for process in ("release", "web", "worker", "clock")
            ]:
                text = ended(program)
                assert "DATABASE_URL" in text
                assert name in text
                assert "Traceback" not in text
            with psycopg.connect(forgetful.url()) as database:
                there = database.execute("SELECT to_regnamespace('mail_service')").fetchone()
            assert there == (None,), "it was refused before anything was made"
        finally:
            processes.stop()
