"""What goes wrong outside ends in a sentence that says what to do next, and never in a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.runtime import Runtime
from mail_service.workflows import operate
from tests.cli.conftest import Cli
from tests.conftest import ENVIRONMENT

COMMAND = Path(sys.executable).parent / "mail-service"

READERS = [
    ("emails", "list"),
    ("suppressions", "list"),
    ("events", "list"),
    ("keys", "list"),
    ("stats",),
]


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_missing_setting_is_named(bare_cli: Cli, command: tuple[str, ...]) -> None:
    ran = bare_cli(*command)
    assert (ran.status, ran.out) == (1, "")
    assert "DATABASE_URL: is required" in ran.err


def test_a_missing_address_key_is_named_before_anything_is_connected(bare_cli: Cli) -> None:
    ran = bare_cli("stats", DATABASE_URL="postgresql://127.0.0.1:1/none")
    assert ran.status == 1
    assert "ADDRESS_KEY: is required" in ran.err


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_without_a_database_one_is_told_where_to_look(
    cli: Cli, command: tuple[str, ...], closed_port: int
) -> None:
    ran = cli(*command, DATABASE_URL=f"postgresql://shop:s3cret@127.0.0.1:{closed_port}/mail")
    assert (ran.status, ran.out) == (1, "")
    assert "nothing listens there" in ran.err
    assert "check DATABASE_URL" in ran.err
    assert "s3cret" not in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_socket_that_is_not_there_and_a_name_that_is_not_known_are_told(
    cli: Cli, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    nowhere = cli("stats", DATABASE_URL=f"postgresql:///mail?host={tmp_path}")
    assert "there is no such socket" in nowhere.err
    unknown = cli("stats", DATABASE_URL=postgres.url("no_such_database"))
    assert "no such database or user" in unknown.err


def test_a_database_without_schema_asks_for_migrate(cli: Cli, postgres: EmbeddedPostgres) -> None:
    url = postgres.create_database("without_schema")
    ran = cli("stats", DATABASE_URL=url)
    assert (ran.status, ran.out) == (1, "")
    assert "The database is empty" in ran.err
    assert "run mail-service migrate" in ran.err
    assert cli("migrate", DATABASE_URL=url).status == 0
    assert cli("stats", DATABASE_URL=url).status == 0


def test_a_uri_that_is_none_is_refused_without_quoting_it(cli: Cli) -> None:
    ran = cli("stats", DATABASE_URL="postgresql://shop:s3cret@host/mail?nonsense=1")
    assert ran.status == 1
    assert "no URI that libpq reads" in ran.err
    assert "s3cret" not in ran.err


def test_every_command_explains_itself(bare_cli: Cli) -> None:
    top = bare_cli("--help")
    assert top.status == 0
    for name in ("demo", "sandbox", "migrate", "worker", "clock", "stats", "templates"):
        assert name in top.out
    for command in (
        *READERS,
        ("demo",),
        ("emails", "show"),
        ("suppressions", "add"),
        ("suppressions", "release"),
        ("templates", "preview"),
        ("templates", "check"),
    ):
        ran = bare_cli(*command, "--help")
        assert ran.status == 0
        assert "--json" in ran.out or command == ("demo",)


def test_no_command_at_all_is_wrong_usage(bare_cli: Cli) -> None:
    assert bare_cli().status == 2
    assert bare_cli("nonsense").status == 2


def test_logs_of_a_command_never_mix_with_its_data(
    cli: Cli, rt: Runtime, database_url: str
) -> None:
    operate.suppress(rt, address="ada@example.com", note=None, by="test")
    ran = subprocess.run(
        [COMMAND, "suppressions", "add", "grace@example.com"],
        env={**ENVIRONMENT, "DATABASE_URL": database_url, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("grace@example.com is suppressed now")
    assert "{" not in ran.stdout
    assert "suppression." not in ran.stdout
    assert ran.stderr == ""
