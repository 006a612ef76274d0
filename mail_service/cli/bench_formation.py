"""The standard formation at rest: how soon it wakes, and what it costs while nothing happens.

One web with two gunicorn workers, two workers, one clock. Sign-ups come one at a time after random
gaps, so that they meet every moment of the loops' sleep.
"""

import json
import random
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from mail_service.cli import bench_cost
from mail_service.cli.bench_cases import CannotMeasure, Case, Figures, percentile
from mail_service.cli.bench_pipeline import COMMAND, runtime, workers
from mail_service.cli.bench_place import Place, Running
from mail_service.cli.bench_sizes import Sizes
from mail_service.runtime import Runtime
from mail_service.store.pool import Database
from mail_service.workflows import operate, registration
from mail_service.workflows.registration import AccountRequest

AWAKE = "commit to call, from rest"
IDLE = "doing nothing"
SETTLE_SECONDS = 6.0
"""After the start, until every loop has found nothing and sleeps its longest."""
WORKERS_APART_SECONDS = 1.0

_COMMITTED = """
    SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::double precision, email
    FROM mail_service.accounts
"""
_STATEMENT = re.compile(
    r"^([^|\n]*)\|LOG:  (?:statement|execute [^:]*): (?!BEGIN|COMMIT|ROLLBACK)", re.MULTILINE
)
"""A query in the server's log, by the name of who asked it; opening and ending a transaction is none."""


@contextmanager
def opened(place: Place) -> Generator[Runtime]:
    """Give a runtime whose pool is closed afterwards."""
    rt = runtime(place)
    try:
        yield rt
    finally:
        if isinstance(rt.db, Database):
            rt.db.close()


@contextmanager
def web(place: Place) -> Generator[tuple[Running, str]]:
    """Run the web process; gives it and a key for its API."""
    with opened(place) as rt:
        key = operate.create_key(rt.db, key_id=uuid.uuid4(), name="bench", scopes=operate.SCOPES)
    command = [COMMAND.replace("mail-service", "gunicorn"), "api.wsgi:application"]
    running = place.start("web", command, place.environ)
    try:
        wait_ready(place, running)
        yield running, key.key
    finally:
        place.stop([running])


def wait_ready(place: Place, running: Running, path: str = "/readyz") -> None:
    """Wait until a web process answers with all its workers."""

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{place.port}{path}", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    place.wait("the web process to be ready", ready, seconds=30, running=[running])
    # One worker answered. gunicorn starts the next a random moment later, and until then the first
    # would take every connection and keep it.
    time.sleep(WORKERS_APART_SECONDS)


@contextmanager
def formation(place: Place, sizes: Sizes) -> Generator[tuple[list[Running], str]]:
    """Run all of it until it rests; gives its processes and a key."""
    place.database.reset()
    place.provider.ask("reset", latency=0, gate=0)
    with web(place) as (web_process, key):
        others = [*workers(place, sizes), place.start("clock", [COMMAND, "clock"], place.environ)]
        try:
            place.wait(
                "workers and clock to start",
                lambda: all(b'.started"' in one.log.read_bytes() for one in others),
                seconds=60,
                running=others,
            )
            time.sleep(SETTLE_SECONDS)
            yield [web_process, *others], key
        finally:
            place.stop(others)


def delay(place: Place, sizes: Sizes) -> Figures:
    """Sign up through the API and measure from commit to the provider."""
    gaps = random.Random(1)  # noqa: S311 - gaps, the same each time
    with formation(place, sizes) as (running, key):
        for number in range(sizes.signups):
            _sign_up(place, key, f"delay-{number}@example.com")
            time.sleep(gaps.expovariate(1 / sizes.gap_seconds))
        _arrived(place, running, sizes.signups)
        return _delays(place, sizes.signups)


def lost(place: Place, sizes: Sizes) -> Figures:
    """Write sign-ups of which no worker is told: the loops' own poll finds them."""
    gaps = random.Random(2)  # noqa: S311 - as above
    with formation(place, sizes) as (running, _), opened(place) as rt:
        for number in range(sizes.lost):
            request = AccountRequest(email=f"delay-{number}@example.com", name="Ada")
            rt.db.transact(registration.open_account(rt, request, actor="bench"))
            time.sleep(gaps.expovariate(1 / (sizes.gap_seconds * 10)))
        _arrived(place, running, sizes.lost)
        return _delays(place, sizes.lost)


def idle(place: Place, sizes: Sizes) -> Figures:
    """Leave it alone and count queries, CPU, connections, memory."""
    if place.postgres is None:
        raise CannotMeasure("queries are counted in the embedded server's log")
    log = place.postgres.directory / "postgres.log"
    name = sql.Identifier("bench")
    with place.database.connect() as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} SET log_statement = 'all'").format(name))
    try:
        with formation(place, sizes) as (running, _):
            at, begun = log.stat().st_size, time.monotonic()
            cpu = [bench_cost.cpu_seconds([one.pid]) for one in running]
            database = place.cpu_of_database()
            time.sleep(sizes.idle_seconds)
            seconds = time.monotonic() - begun
            used = [bench_cost.cpu_seconds([one.pid]) for one in running]
            database = place.cpu_of_database() - database
            with log.open("rb") as lines:
                lines.seek(at)
                text = lines.read().decode(errors="replace")
            asked = [found[1] for found in _STATEMENT.finditer(text)]
            spent = [(b - a) * 100 / seconds for a, b in zip(cpu, used, strict=True)]
            return {
                "queries/s": sum(who != "bench" for who in asked) / seconds,
                "a worker's": _of_worker(asked) / seconds / sizes.processes,
                "its drain's": asked.count("mail-service drain") / seconds / sizes.processes,
                "CPU %": sum(spent),
                "web's": spent[0],
                "a worker's CPU %": sum(spent[1:-1]) / sizes.processes,
                "clock's": spent[-1],
                "database's": database * 100 / seconds,
                "memory MB": max(bench_cost.resident_mb([one.pid]) for one in running),
                "connections": place.database.connections(),
            }
    finally:
        with place.database.connect() as connection:
            connection.execute(sql.SQL("ALTER DATABASE {} RESET log_statement").format(name))


def _of_worker(asked: Sequence[str]) -> int:
    """Count the queries of worker processes: their drains, pools and brokers."""
    names = {"mail-service drain", "mail-service worker", "mail-service broker"}
    return sum(who in names for who in asked)


def _sign_up(place: Place, key: str, address: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{place.port}/v1/accounts",
        json.dumps({"email": address, "name": "Ada"}).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310 - our own address
        answer.read()


def _arrived(place: Place, running: Sequence[Running], count: int) -> None:
    place.wait(
        "every sign-up to arrive at the provider",
        lambda: place.provider.ask("count")["calls"] >= count,
        seconds=60,
        running=running,
    )
    place.wait(
        "every sign-up to be recorded",
        lambda: place.database.submitted() >= count,
        seconds=30,
        running=running,
    )


def _delays(place: Place, count: int) -> Figures:
    calls = place.provider.calls()
    try:
        with place.database.connect() as connection:
            rows = connection.execute(_COMMITTED).fetchall()
    except psycopg.errors.ObjectNotInPrerequisiteState as off:
        raise CannotMeasure("the server has track_commit_timestamp off") from off
    committed = {str(address): float(at) for at, address in rows}
    milliseconds = [(at - committed[recipient]) * 1000 for at, _, recipient, _ in calls]
    return {
        "p50 ms": percentile(milliseconds, 0.5),
        "p99 ms": percentile(milliseconds, 0.99),
        "longest ms": max(milliseconds),
        "duplicates": len(calls) - len({recipient for _, _, recipient, _ in calls}),
        "missing": count - len({recipient for _, _, recipient, _ in calls}),
    }


CASES = (
    Case(group=AWAKE, name="with the nudge", measure=delay, once=True),
    Case(group=AWAKE, name="nudge lost", measure=lost, once=True),
    Case(group=IDLE, name="web, 2 workers, clock", measure=idle, once=True),
)
