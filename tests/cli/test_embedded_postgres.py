"""The PostgreSQL of demo and tests: durable while it lives, and gone without a trace afterwards."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from mail_service.cli import postgres_programs
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.errors import Unavailable
from tests.cli import leftovers

_OWNER = """
import sys
from mail_service.cli.embedded_postgres import EmbeddedPostgres
with EmbeddedPostgres() as postgres:
    print(postgres.directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server that these tests may kill."""
    with EmbeddedPostgres(tcp=True, max_connections=20) as postgres:
        yield postgres


def _ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()  # pyright: ignore
        assert row is not None
        return row[0]


def test_it_is_postgresql_18_with_real_durability(server: EmbeddedPostgres) -> None:
    def setting(name: str) -> object:
        return _ask(server.url(), f"SELECT current_setting('{name}')")

    assert str(setting("server_version")).startswith("18.")
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        assert setting(name) == "on"
    assert setting("max_connections") == "20"
    assert setting("TimeZone") == "UTC"
    assert _ask(server.url(), "SELECT lower('ÄÖ')") == "äö"


def test_a_database_is_a_copy_of_its_template(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.create_database("mother"), autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 42 AS n")
    copy = server.create_database("daughter", template="mother")
    assert _ask(copy, "SELECT n FROM t") == 42
    with psycopg.connect(copy):
        server.drop_database("daughter")
    server.drop_database("mother")


def test_tcp_needs_the_password_and_the_socket_does_not(server: EmbeddedPostgres) -> None:
    assert _ask(server.tcp_url(), "SELECT 1") == 1
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres")


def test_what_was_committed_survives_a_killed_server(server: EmbeddedPostgres) -> None:
    url = server.create_database("crash")
    before = server.postmaster_pid
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
        server.kill9()
        with pytest.raises(Unavailable):
            _ = server.postmaster_pid
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.start()
    assert server.postmaster_pid != before
    assert _ask(url, "SELECT count(*) FROM t") == 1000
    assert _ask(server.tcp_url("crash"), "SELECT count(*) FROM t") == 1000
    server.drop_database("crash")


def test_a_server_without_tcp_listens_on_no_port() -> None:
    with EmbeddedPostgres() as postgres:
        listening = psutil.Process(postgres.postmaster_pid).net_connections("inet")
        assert listening == []
        with pytest.raises(ValueError, match="tcp=True"):
            postgres.tcp_url()


def test_the_path_of_the_socket_fits_every_system(server: EmbeddedPostgres) -> None:
    (path,) = server.directory.glob(".s.PGSQL.*[0-9]")
    assert len(os.fsencode(path)) < 100


def test_nothing_is_left_after_an_exception() -> None:
    def fail() -> Path:
        with EmbeddedPostgres() as postgres:
            seen.append(postgres.directory)
            raise KeyError

    seen: list[Path] = []
    with pytest.raises(KeyError):
        fail()
    assert not seen[0].exists()
    assert leftovers.processes_of(seen[0]) == []


def test_a_killed_server_leaves_no_shared_memory_when_it_is_stopped() -> None:
    def segments() -> set[str]:
        table = Path("/proc/sysvipc/shm")
        return {line.split()[1] for line in table.read_text().splitlines()[1:]}

    if not Path("/proc/sysvipc/shm").exists():
        pytest.skip("no /proc to look into")
    with EmbeddedPostgres() as postgres:
        lines = (postgres.directory / "data" / "postmaster.pid").read_text().splitlines()
        segment = lines[6].split()[1]
        assert segment in segments()
        postgres.kill9()
    assert segment not in segments()
    assert not postgres.directory.exists()
    postgres.stop()  # once more, to no effect


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name
)
def test_nothing_is_left_when_the_owner_is_signalled(number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        assert directory.is_dir()
        family = psutil.Process(owner.pid).children(recursive=True)
        assert len(family) >= 2  # server and watchdog at least
        owner.send_signal(number)
        owner.wait(30)
    assert leftovers.nothing_is_left(directory, family)


@pytest.mark.parametrize(
    "odd", ["missing/deep", "x" * 120, "with space", "with,comma"], ids=lambda text: text[:12]
)
def test_an_odd_tmpdir_is_no_obstacle(odd: str, tmp_path: Path) -> None:
    place = tmp_path / odd
    if "missing" not in odd:
        place.mkdir()
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _OWNER],
        env={"TMPDIR": str(place), "LANG": "nonsense", "PGPORT": "1", "PGDATA": "/nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not Path(ran.stdout.strip()).exists()


def test_programs_that_the_servers_user_can_not_reach_are_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs the server as another user")
    monkeypatch.setattr(postgres_programs, "_reachable", lambda root, user: False)
    with EmbeddedPostgres() as postgres:
        command = Path(psutil.Process(postgres.postmaster_pid).cmdline()[0])
        assert command.is_relative_to(postgres.directory)
        assert _ask(postgres.url(), "SELECT 1") == 1
