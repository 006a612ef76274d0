"""The bench measures: every figure is there, nothing is doubled or lost. Never how fast."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import structlog
import urllib3

from mail_service.cli import (
    bench_cases,
    bench_depth,
    bench_mail,
    bench_pipeline,
    bench_report,
    bench_run,
    bench_sizes,
    session,
)
from mail_service.cli.bench_cases import Case, Outcome
from mail_service.cli.bench_place import Place
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.errors import Unavailable
from tests.cli import leftovers
from tests.cli.conftest import Cli

pytestmark = pytest.mark.timeout(600)  # twenty seconds, on a machine that nobody else needs

ROOT = Path(__file__).parents[2]
TINY = bench_sizes.Sizes(
    repetitions=1,
    processes=1,
    slots=4,
    emails=60,
    requests=40,
    connections=4,
    pending=500,
    finished=500,
    waves=4,
    churn_seconds=0.5,
)
GROUPS = ("after 0 ms", "POST", "webhook", "claim", "churn")
"""What fits a test; the rest waits on purpose, for gaps between sign-ups and for a system at rest."""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A place to measure, the embedded server in it."""
    with Place(None) as found:
        yield found


@pytest.fixture(scope="module")
def outcomes(place: Place) -> list[Outcome]:
    """What a tiny run of the product's own profile measured."""
    session.quiet_logs()
    chosen = [case for case in bench_run.profile() if any(name in case.group for name in GROUPS)]
    try:
        return bench_cases.run(chosen, place, TINY, lambda *_: None)
    finally:
        structlog.reset_defaults()


def test_every_case_measures_every_figure(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == 10
    unmeasured = [
        (one.case.group, one.case.name, name)
        for one in outcomes
        for name in one.names()
        if math.isnan(one.median(name))
    ]
    assert unmeasured == []
    assert all(one.runs and not one.left_out for one in outcomes)


def test_the_provider_saw_each_email_once_and_all_alike(outcomes: list[Outcome]) -> None:
    assert bench_report.problems(outcomes) == []
    sizes = {
        one.case.name: one.median("bytes/call")
        for one in outcomes
        if "bytes/call" in one.names()
    }  # fmt: skip
    assert set(sizes) == {"raw boto3", "mail-service"}
    # The same mail: only the recipient's number differs in length.
    assert abs(sizes["raw boto3"] - sizes["mail-service"]) < 10
    assert min(sizes.values()) > bench_mail.TEXT_BYTES + bench_mail.HTML_BYTES


def test_goals_are_judged_where_both_sides_were_measured(outcomes: list[Outcome]) -> None:
    told = [goal.text for goal, _ in bench_report.judged(bench_report.GOALS, outcomes)]
    assert told == [
        "emails/s to raw boto3 at 0 ms",
        "claim of 32: deep to 1,000 pending",
        "churn: old snapshot to none",
        "POST /v1/accounts to the bare route",
        "webhook to the bare route",
    ]


def test_the_findings_are_json_without_nan(outcomes: list[Outcome]) -> None:
    found = bench_report.as_json(outcomes, bench_report.GOALS, TINY, "18")
    text = json.dumps(found, allow_nan=False)
    assert len(json.loads(text)["cases"]) == len(outcomes)


def test_a_call_made_twice_and_one_never_made_are_found(place: Place) -> None:
    def start(place: Place, sizes: bench_sizes.Sizes) -> list[object]:
        http = urllib3.PoolManager()
        # Ten emails: the first is called twice under one tag, the last never.
        for number in (0, 0, 1, 2, 3, 4, 5, 6, 7, 8):
            body = {
                "Destination": {"ToAddresses": [f"a{number}@example.com"]},
                "EmailTags": [{"Name": "tag", "Value": str(number)}],
            }
            answer = http.request(
                "POST",
                f"{place.provider.url}/v2/email/outbound-emails",
                json=body,
                headers={"Authorization": "test"},
            )
            assert answer.status == 200, answer.data
        http.clear()
        return []

    def in_thread(place: Place, sizes: bench_sizes.Sizes) -> list[object]:
        # The provider holds the first answer until the bench opens the gate.
        thread = threading.Thread(target=start, args=(place, sizes), daemon=True)
        thread.start()
        return []

    sender = bench_pipeline.Sender(
        name="careless",
        prepare=lambda place, sizes: None,
        start=in_thread,  # pyright: ignore
        finished=lambda place, sizes: 10,
    )
    sizes = bench_sizes.Sizes(emails=10, processes=1, slots=1)
    case = Case(
        group="g",
        name="careless",
        measure=lambda place, sizes: bench_pipeline.measure(place, sizes, sender, 0.0),
    )
    found = bench_cases.run([case], place, sizes, lambda *_: None)
    assert bench_report.problems(found)
    assert (found[0].runs[0]["duplicates"], found[0].runs[0]["missing"]) == (2, 1)


def test_a_database_with_tables_is_refused_and_left_alone(
    postgres: EmbeddedPostgres, bare_cli: Cli
) -> None:
    url = postgres.create_database("somebodys")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE precious AS SELECT 1 AS value")
    before = signal.getsignal(signal.SIGINT)
    ran = bare_cli("bench", "--quick", DATABASE_URL=url)
    assert ran.status == 1
    assert "needs an empty one" in ran.err
    assert signal.getsignal(signal.SIGINT) is before
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT count(*), (SELECT value FROM precious) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchone()
    assert tables == (1, 1)


def test_a_given_database_is_empty_again_and_the_one_beside_it_gone() -> None:
    with EmbeddedPostgres() as postgres:
        url = postgres.create_database("given")
        with psycopg.connect(postgres.create_database("not_empty"), autocommit=True) as connection:
            connection.execute("CREATE TABLE precious AS SELECT 1 AS value")
        with Place(url) as given:
            assert bench_depth.Depth().deep(given, TINY)["p50 ms"] > 0
        with pytest.raises(Unavailable), Place(postgres.url("not_empty")):
            pass
        with psycopg.connect(url, autocommit=True) as connection:
            left = connection.execute(
                "SELECT count(*) FROM pg_tables "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchone()
            beside = connection.execute("SELECT datname FROM pg_database").fetchall()
        assert left == (0,)
        assert ("given",) in beside
        assert ("bench_deep",) not in beside


def test_ctrl_c_leaves_no_process_and_no_directory(tmp_path: Path) -> None:
    output = tmp_path / "output"
    environ = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "PYTHONWARNINGS"}}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-c", "from mail_service.cli.main import main; main()", "bench"],
            env={**environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    family: list[psutil.Process] = []

    def begun() -> bool:
        family[:] = psutil.Process(process.pid).children(recursive=True)
        return any("bench_raw.py" in " ".join(_words(one)) for one in family)

    try:
        assert leftovers.until(begun, 60), output.read_text()
        found = {leftovers.variable_of(one, "MAIL_SERVICE_RUN") for one in family} - {None}
        (directory,) = found
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, output.read_text()
    finally:
        process.kill()
        process.wait()
    assert leftovers.nothing_is_left(Path(str(directory)), family)
    assert re.search(r"stopped; nothing is left behind", output.read_text())


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def test_what_a_case_left_running_ends_with_the_bench() -> None:
    with Place(None) as place:
        left = place.start("left", ["sleep", "600"], {})
        assert left.process.poll() is None
    assert left.process.poll() == -signal.SIGTERM
