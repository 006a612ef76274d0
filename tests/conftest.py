"""What tests stand on: a real PostgreSQL, a clean database each, a runtime with a scripted provider."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from actors import broker as brokers
from mail_service import wiring
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.runtime import Runtime
from mail_service.settings import Process, Settings
from mail_service.store import migrating
from mail_service.store.pool import Database
from tests.fakes import ScriptedMailer, counting_ids

# Started in the background of a shell, or by nohup, this process ignores Ctrl-C or a hang-up, and so would
# every process that a test starts and signals. With a handler here they have the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)

TOPIC = "arn:aws:sns:eu-west-1:123456789012:ses-events"

ENVIRONMENT = {
    "APP_ENV": "test",
    "AWS_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "MAIL_FROM": "Shop <shop@example.com>",
    "SNS_TOPIC_ARNS": TOPIC,
    "ADDRESS_KEY": "address-key-for-tests-0123456789abcdef",
    "CONSOLE_SECRET": "console-secret-for-tests-0123456789ab",
    "SES_CONFIGURATION_SET": "mail",
}

# Time in tests: the database's own clock, moved by an offset. Production has no such table.
_MOVABLE_CLOCK = """
CREATE TABLE mail_service.test_clock (ahead interval NOT NULL);
INSERT INTO mail_service.test_clock VALUES ('0');
CREATE OR REPLACE FUNCTION mail_service.clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT now() + (SELECT ahead FROM mail_service.test_clock) $$;
"""


def cases_dir() -> Path:
    """Where the cases from the field lie; tests that need them skip where they are not."""
    default = Path(__file__).parents[2] / "shared" / "cases"
    return Path(os.environ.get("CASES_DIR", default))


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One PostgreSQL for the whole run.

    Its databases go with it. To drop one waits until all that was written to the others is on the disk,
    which on a busy machine takes minutes.
    """
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> str:
    """A migrated database with a movable clock, to be cloned."""
    postgres.create_database("template_for_tests")
    url = postgres.url("template_for_tests")
    migrating.migrate(url)
    brokers.install_schema(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_MOVABLE_CLOCK)
    return "template_for_tests"


@pytest.fixture(scope="session")
def shared_url(postgres: EmbeddedPostgres, template: str) -> str:
    """The database of tests that clean up by truncating."""
    postgres.create_database("shared_by_tests", template=template)
    return postgres.url("shared_by_tests")


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """The address of somebody else's AWS, so that our idea of its APIs is not only our own."""
    from moto.server import ThreadedMotoServer  # takes a second to import, and few tests need it

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@dataclass
class Sql:
    """Looks at the tables, and moves the clock."""

    url: str

    def __call__(self, query: str, *params: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(query, params)  # pyright: ignore
            return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *params: Any) -> Any:
        """Give the only value."""
        (row,) = self(query, *params)
        (value,) = row.values()
        return value

    def advance(self, seconds: float) -> None:
        """Let the database's time pass."""
        self(
            "UPDATE mail_service.test_clock SET ahead = ahead + make_interval(secs => %s)", seconds
        )

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Give every table's rows, for comparing."""
        tables = self(
            "SELECT table_name AS t FROM information_schema.tables "
            "WHERE table_schema = 'mail_service' AND table_type = 'BASE TABLE'"
        )
        return {
            row["t"]: sorted(self(f"SELECT * FROM mail_service.{row['t']}"), key=repr)
            for row in tables
        }


_TRUNCATE = """
DO $$ BEGIN
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('mail_service.%I', table_name), ', ')
             FROM information_schema.tables
             WHERE table_schema = 'mail_service' AND table_type = 'BASE TABLE'
               AND table_name NOT IN ('schema_version', 'test_clock', 'send_rate'));
    UPDATE mail_service.send_rate
    SET per_second = 1000000, tokens = 1000000, factor = 1, throttled_at = NULL, day_left = NULL,
        filled_at = now(), quota_read_at = NULL, unknowns_in_a_row = 0;
    TRUNCATE dramatiq.queue;
    UPDATE mail_service.test_clock SET ahead = '0';
END $$
"""


@pytest.fixture
def database_url(shared_url: str) -> str:
    """An empty, migrated database."""
    with psycopg.connect(shared_url, autocommit=True) as connection:
        connection.execute(_TRUNCATE)
    return shared_url


@pytest.fixture
def own_database_url(postgres: EmbeddedPostgres, template: str) -> str:
    """A database of this test alone, for tests that start processes or cut connections."""
    name = f"own_{os.urandom(6).hex()}"
    return postgres.create_database(name, template=template)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens: it is taken, so that nobody else is given it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


@pytest.fixture
def sql(database_url: str) -> Sql:
    """The tables, and the clock."""
    return Sql(database_url)


@pytest.fixture
def mailer() -> ScriptedMailer:
    """The provider: answers what the test says, and remembers what it was given."""
    return ScriptedMailer()


@pytest.fixture
def settings_of() -> Callable[..., Settings]:
    """Builds settings from the usual environment and what a test changes in it."""

    def build(**changes: str) -> Settings:
        environ = ENVIRONMENT | {"DATABASE_URL": "postgresql:///none"} | changes
        return Settings.from_env(environ, Process.WEB)

    return build


@pytest.fixture
def runtime_of(
    database_url: str, mailer: ScriptedMailer, settings_of: Callable[..., Settings]
) -> Iterator[Callable[..., Runtime]]:
    """Builds runtimes on the test's database; ids count up, jitter is always 1."""
    opened: list[Database] = []
    ids = counting_ids()

    def build(**changes: str) -> Runtime:
        db = Database(database_url, name="tests", size=8)
        db.open()
        opened.append(db)
        settings = settings_of(DATABASE_URL=database_url, **changes)
        rt = wiring.runtime(settings, Process.WEB, db)
        return replace(rt, mailer=mailer, read_quota=mailer.quota, new_id=ids, jitter=lambda: 1.0)

    yield build
    for db in opened:
        db.close()


@pytest.fixture
def rt(runtime_of: Callable[..., Runtime]) -> Runtime:
    """The usual runtime."""
    return runtime_of()
