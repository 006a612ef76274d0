"""One database for all schedules, and a new world in it for each."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from mail_service import wiring
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.settings import Process, Settings
from mail_service.store.line import Line
from tests.conftest import _TRUNCATE, ENVIRONMENT  # pyright: ignore
from tests.fakes import counting_ids
from tests.statemachine.auditor import Auditor
from tests.statemachine.faults import SLOWER, Clock, Commits, Log, installed
from tests.statemachine.world import World

SETTINGS = {
    "ALLOWED_SENDERS": "example.com",
    "MAX_ATTEMPTS": "3",
    "RETRY_CAP_SECONDS": "600",
}

# The movable clock, running slower by itself (faults.SLOWER).
_SLOW_CLOCK = """
CREATE OR REPLACE FUNCTION mail_service.clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT timestamptz '{begun}' + (now() - timestamptz '{begun}') / {slower}
              + (SELECT ahead FROM mail_service.test_clock) $$
"""

_FULL_BUCKET = "UPDATE mail_service.send_rate SET filled_at = mail_service.clock()"

_A_KEY = """
INSERT INTO mail_service.api_keys (id, name, lookup, secret_hash, scopes)
VALUES ('00000000-0000-0000-0000-000000000000', 'caller', 'caller', '', '{send}')
"""


@pytest.fixture(scope="module")
def schedules_url(postgres: EmbeddedPostgres, template: str) -> str:
    """A database of the schedules alone. Its commits don't wait for the disk: nothing crashes it."""
    name = f"schedules_{secrets.token_hex(6)}"
    url = postgres.create_database(name, template=template)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")  # pyright: ignore
        begun = connection.execute("SELECT now()").fetchone()
        assert begun is not None
        connection.execute(_SLOW_CLOCK.format(begun=begun[0].isoformat(), slower=SLOWER))  # type: ignore[arg-type]
    return url


@pytest.fixture(scope="module")
def new_world(schedules_url: str) -> Iterator[Callable[[], World]]:
    """Begins a world: an empty database, nobody at work, the clock at now."""
    settings = Settings.from_env(
        ENVIRONMENT | SETTINGS | {"DATABASE_URL": schedules_url}, Process.WEB
    )
    auditor = Auditor(schedules_url)
    commits, clock, log = Commits(), Clock(), Log()
    db = Line(schedules_url, name="schedule")
    rt = wiring.runtime(settings, Process.WEB, db)
    rules = (
        *(settings.lease_seconds, settings.call_seconds, settings.max_age_seconds),
        *(settings.max_attempts, settings.max_policy_resends, settings.ses_configuration_set),
    )

    def begin() -> World:
        commits.heal()
        clock.ahead = 0.0
        log.alarms.clear()
        auditor.begin(_TRUNCATE, _FULL_BUCKET, _A_KEY, rules=rules)
        return World(
            replace(rt, new_id=counting_ids(), jitter=lambda: 1.0), auditor, commits, clock, log
        )

    with installed(commits, clock, log):
        yield begin
    db.close()
    auditor.close()


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """A world of one test's own."""
    return new_world()
