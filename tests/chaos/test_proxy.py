"""The fault proxy does what it is asked to, counts it, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import psycopg2
import pytest

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from tests.chaos.proxy import CALM, Faults, Proxy, Speech
from tests.journeys.programs import until


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tcp=True) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE noted (text text)")
        yield server


@pytest.fixture
def proxy(server: EmbeddedPostgres) -> Iterator[Proxy]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("TRUNCATE noted")
    with Proxy(server.port, seed=1) as proxy:
        yield proxy


@pytest.fixture
def url(server: EmbeddedPostgres, proxy: Proxy) -> str:
    return f"{server.tcp_url(port=proxy.port)}?application_name=somebody"


def noted(server: EmbeddedPostgres) -> list[str]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM noted")]


def write(connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO noted VALUES ('something')")
    connection.commit()


def test_what_is_large_passes_whole_and_nothing_is_counted(url: str, proxy: Proxy) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT repeat('x', 3000000), %s", ("y" * 3_000_000,)).fetchone()
        write(connection)
    assert row == ("x" * 3_000_000, "y" * 3_000_000)
    assert proxy.counts == {}


def test_a_commit_whose_answer_is_lost_is_done(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    with psycopg.connect(url) as connection:
        proxy.faults = Faults(answer_lost=1)
        with pytest.raises(psycopg.OperationalError):
            write(connection)
    assert noted(server) == ["something"]
    assert proxy.counts == {"answer_lost": 1}
    assert proxy.by_client == {("somebody", "answer_lost"): 1}


def test_a_commit_that_is_lost_is_not_done(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    with psycopg.connect(url) as connection:
        proxy.faults = Faults(commit_lost=1)
        with pytest.raises(psycopg.OperationalError):
            write(connection)
    assert noted(server) == []
    assert proxy.counts == {"commit_lost": 1}


@pytest.mark.parametrize("prepared", [False, True])
def test_the_commit_of_a_statement_that_commits_itself_is_known(
    url: str, proxy: Proxy, server: EmbeddedPostgres, *, prepared: bool
) -> None:
    said = "INSERT INTO noted VALUES (%s)"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(said, ("before",), prepare=prepared)
        proxy.faults = Faults(answer_lost=1, commit_lost=0)
        connection.execute("SELECT 1", prepare=prepared)
        with pytest.raises(psycopg.OperationalError):
            connection.execute(said, ("done",), prepare=prepared)
    with psycopg.connect(url, autocommit=True) as connection:
        proxy.faults = Faults(commit_lost=1)
        with pytest.raises(psycopg.OperationalError):
            connection.execute(said, ("not done",), prepare=prepared)
    assert noted(server) == ["before", "done"]
    assert proxy.counts == {"answer_lost": 1, "commit_lost": 1}


def test_a_statement_within_a_transaction_is_no_commit(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    with psycopg.connect(url) as connection:
        proxy.faults = Faults(commit_lost=1)
        connection.execute("INSERT INTO noted VALUES ('something')")
        connection.rollback()
    assert noted(server) == []
    assert proxy.counts == {}


def test_the_older_driver_s_commits_are_known_as_well(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    connection = psycopg2.connect(url)
    connection.cursor().execute("INSERT INTO noted VALUES ('something')")
    proxy.faults = Faults(answer_lost=1)
    with pytest.raises(psycopg2.OperationalError):
        connection.commit()
    connection.close()
    assert noted(server) == ["something"]


def test_a_cut_is_seen_by_the_client(url: str, proxy: Proxy) -> None:
    with psycopg.connect(url) as connection:
        proxy.faults = Faults(cut=1)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert proxy.counts == {"cut": 1}


def test_in_a_black_hole_both_ends_stay_up_until_its_time_is_over(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")
        proxy.faults = Faults(hole=1, hole_seconds=0.6)
        begun = time.monotonic()
        asking = threading.Thread(target=_fails, args=(connection,))
        asking.start()
        time.sleep(0.3)
        with psycopg.connect(server.url()) as looking:
            backends = looking.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'somebody'"
            ).fetchone()
        assert backends == (1,)
        assert asking.is_alive()
        asking.join(5)
    assert 0.5 < time.monotonic() - begun < 3


def test_it_tells_who_is_behind_a_port_of_the_server_s_and_whether_anything_passes(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    options = "-c%20campaign.worker%3Dworker-7"
    with psycopg.connect(f"{url}&options={options}") as connection:
        port = connection.execute(
            "SELECT client_port FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert port is not None
        assert proxy.options(port[0]) == "-c campaign.worker=worker-7"
        assert proxy.passes(port[0])
        proxy.faults = Faults(hole=1, hole_seconds=30)
        asking = threading.Thread(target=_fails, args=(connection,))
        asking.start()
        until(lambda: not proxy.passes(port[0]), "nothing passes", 5)
        proxy.heal()
        asking.join(5)
    until(lambda: proxy.open == 0, "it is closed", 5)
    assert not proxy.passes(port[0])
    assert not proxy.passes(1)


def _fails(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")


def test_healing_ends_the_black_hole_and_the_faults(url: str, proxy: Proxy) -> None:
    with psycopg.connect(url) as connection:
        proxy.faults = Faults(hole=1, hole_seconds=30)
        asking = threading.Thread(target=_fails, args=(connection,))
        asking.start()
        until(lambda: proxy.counts["hole"], "the hole", 5)
        proxy.heal()
        asking.join(5)
        assert not asking.is_alive()
    assert proxy.faults == CALM
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")


def test_every_connection_is_cut_at_once(url: str, proxy: Proxy) -> None:
    connections = [psycopg.connect(url) for _ in range(3)]
    assert proxy.open == 3
    proxy.cut_all()
    until(lambda: proxy.open == 0, "all are cut", 5)
    for connection in connections:
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()


def test_what_is_late_comes_all_the_same(url: str, proxy: Proxy) -> None:
    with psycopg.connect(url) as connection:
        proxy.faults = Faults(late=1, late_seconds=0.2)
        begun = time.monotonic()
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert time.monotonic() - begun > 0.04
        assert proxy.counts["late"] >= 1
        proxy.faults = CALM


def test_a_server_that_is_away_is_refused_and_met_again(
    url: str, proxy: Proxy, server: EmbeddedPostgres
) -> None:
    server.kill9()
    try:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        assert proxy.counts["refused"] >= 1
    finally:
        server.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_seed_decides_which_connection_meets_what(server: EmbeddedPostgres) -> None:
    assert _story(server, 5) == _story(server, 5) != _story(server, 6)


def _story(server: EmbeddedPostgres, seed: int) -> list[bool]:
    met: list[bool] = []
    with Proxy(server.port, seed) as proxy:
        for _ in range(12):
            with psycopg.connect(server.tcp_url(port=proxy.port)) as connection:
                proxy.faults = Faults(cut=0.3)
                try:
                    connection.execute("SELECT 1")
                except psycopg.OperationalError:
                    met.append(True)
                else:
                    met.append(False)
                proxy.faults = CALM
                connection.close()
    return met


def test_a_commit_is_found_however_the_bytes_are_cut_up() -> None:
    start = b"\0\3\0\0application_name\0me\0\0"
    said = (len(start) + 4).to_bytes(4) + start + b"Q\0\0\0\x0bCOMMIT\0"
    whole, speech = Speech(), Speech()
    assert whole.commits(said)
    assert [n for n, byte in enumerate(said) if speech.commits(bytes([byte]))] == [len(said) - 1]
    assert whole.name == speech.name == "me"
    assert not whole.commits(b"Q\0\0\0\x0dSELECT 1\0")
