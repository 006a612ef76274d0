"""The real server: how it starts, what it refuses, and how it stops."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.domain.address import keyed_hash
from mail_service.store.pool import Database
from mail_service.workflows import operate
from tests.api.conftest import ACCOUNT, NOBODY
from tests.conftest import ENVIRONMENT

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """gunicorn as the Procfile starts it, in a process group of its own."""

    def __init__(self, out: Path, **environ: str) -> None:
        self.port = free_port()
        self.out = out
        environ = ENVIRONMENT | {"PORT": str(self.port), "WEB_CONCURRENCY": "1"} | environ
        with out.open("w") as log:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("gunicorn")), "api.wsgi:application"],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ended(self, seconds: float) -> int:
        return self.process.wait(seconds)

    def text(self) -> str:
        return self.out.read_text()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def until_up(self) -> None:
        """Ask until it answers; the test's own time limit ends this."""
        while True:
            assert self.process.poll() is None, self.text()
            try:
                if self.get("/healthz")[0] == 200:
                    return
            except OSError:
                pass

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        """Send bytes on one connection and give all that comes back until it is closed."""
        with self.connect() as connection:
            with suppress(OSError):  # the server may have closed already, having said enough
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            return everything(connection)

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()


def everything(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def key_for(url: str) -> str:
    db = Database(url, name="test", size=1)
    db.open()
    key = operate.create_key(db, key_id=uuid4(), name="test", scopes=("send", "read")).key
    db.close()
    return key


def request(key: str, body: bytes, *headers: str) -> bytes:
    lines = ["POST /v1/accounts HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


@pytest.fixture(scope="module")
def url(postgres: EmbeddedPostgres, template: str) -> str:
    """A database that outlives the tests here."""
    postgres.create_database("gunicorn_tests", template=template)
    return postgres.url("gunicorn_tests")


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for those tests that leave it running."""
    running = Server(tmp_path_factory.mktemp("server") / "log", DATABASE_URL=url)
    running.until_up()
    yield running
    running.kill()


BAD_SETTINGS: list[tuple[dict[str, str], set[str]]] = [
    (
        {
            "DATABASE_URL": "mysql://user:secret-of-the-url@db/app",
            "PORT": "http",
            "WEB_CONCURRENCY": "0",
            "ADDRESS_KEY": "secret-too-short",
            "CONSOLE_SECRET": "",
            "SNS_TOPIC_ARNS": "ses-events",
            "MAIL_FROM": "",
        },
        {"PORT", "WEB_CONCURRENCY", "ADDRESS_KEY", "CONSOLE_SECRET", "MAIL_FROM"},
    ),
    ({"DATABASE_URL": "mysql://user:secret-of-the-url@db/app"}, {"DATABASE_URL"}),
    ({"DATABASE_URL": "postgresql://user:secret-of-the-url@[::1"}, set()),
    ({"DATABASE_URL": "postgresql:///x", "TEMPLATE_DIR": str(ROOT / "docs")}, {"TEMPLATE_DIR"}),
]


@pytest.mark.parametrize(("environ", "named"), BAD_SETTINGS)
def test_bad_settings_end_the_server_for_good_and_are_named_without_secrets(
    tmp_path: Path, environ: dict[str, str], named: set[str]
):
    server = Server(tmp_path / "log", **environ)
    try:
        assert server.ended(10) != 0
    finally:
        server.kill()
    text = server.text()
    assert all(f"{name}: " in text for name in named), text
    assert "secret" not in text.lower().replace("a secret", "").replace("console_secret", "")
    assert "Traceback" not in text


def test_the_server_answers_logs_json_and_keeps_query_strings_out_of_it(server: Server):
    assert server.get("/readyz")[0] == 200
    assert server.get("/v1/emails?recipient=ada@example.com")[0] == 401
    bad = server.raw(b"GET /v1/emails?recipient=ada@example.com HTTP/9.9\r\n\r\n")
    assert bad.startswith(b"HTTP/1.1 400")
    lines = [json.loads(line) for line in server.text().splitlines()]
    assert {line["process"] for line in lines} == {"web"}
    assert "ada@example.com" not in server.text()


def test_bodies_arrive_whole_in_whatever_framing(server: Server, url: str):
    key = key_for(url)
    body = json.dumps(ACCOUNT).encode()
    chunked = b"5\r\n" + body[:5] + b"\r\n" + f"{len(body) - 5:x}\r\n".encode() + body[5:]
    close = "Connection: close"
    te = "Transfer-Encoding: chunked"
    answer = server.raw(request(key, chunked + b"\r\n0\r\n\r\n", te, close))
    assert answer.startswith(b"HTTP/1.1 201"), answer
    assert server.raw(request(key, chunked, te, close)).startswith(b"HTTP/1.1 400")
    half = request(key, body[:10], f"Content-Length: {len(body)}", close)
    assert server.raw(half).startswith(b"HTTP/1.1 400")
    # Sent whole before the answer is looked for, as most clients do.
    much = request(key, b" " * 12 * 2**20, f"Content-Length: {12 * 2**20}", close)
    assert server.raw(much).startswith(b"HTTP/1.1 413")
    mebibyte = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    endless = request(key, mebibyte * 2 + b"0\r\n\r\n", te, close)
    assert server.raw(endless).startswith(b"HTTP/1.1 413")
    both = request(key, b"0\r\n\r\n", te, "Content-Length: 5")
    assert server.raw(both).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /webhooks/ses/sns HT",
        b"POST /webhooks/ses/sns HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
        b"POST /v1/accounts HTTP/1.1\r\nContent-Length: 50\r\n\r\n{",
    ],
    ids=["nothing", "half a line", "half a webhook", "half a request without a key"],
)
def test_sixty_clients_that_stall_do_not_keep_others_out(server: Server, sent: bytes):
    slow = [server.connect() for _ in range(60)]
    try:
        for connection in slow:
            connection.sendall(sent)
        begun = monotonic()
        assert server.get("/healthz")[0] == 200
        assert monotonic() - begun < 5
    finally:
        for connection in slow:
            connection.close()


@pytest.fixture
def stoppable(own_database_url: str, tmp_path: Path) -> Iterator[Server]:
    """A server that the test may stop."""
    running = Server(tmp_path / "log", DATABASE_URL=own_database_url)
    running.until_up()
    yield running
    running.kill()


def test_clients_that_do_not_close_after_their_answer_keep_nobody_waiting(server: Server):
    """gunicorn waits two seconds for each of them, one after the other, on the thread that serves all."""
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    begun = monotonic()
    with ExitStack() as open_ones:
        for _ in range(20):
            client = open_ones.enter_context(server.connect())
            client.sendall(asked)
            assert everything(client).startswith(b"HTTP/1.1 200")
        assert server.get("/healthz")[0] == 200
        assert monotonic() - begun < 10  # 40 s where they are waited for in turn


def test_two_signals_to_the_whole_group_let_a_request_end(own_database_url: str, stoppable: Server):
    server, key = stoppable, key_for(own_database_url)
    body = json.dumps(ACCOUNT).encode()
    answers: list[bytes] = []
    with (
        psycopg.connect(own_database_url) as blocker,
        psycopg.connect(own_database_url, autocommit=True) as watcher,
    ):
        # Whoever holds the address makes the request wait in the middle of its transaction.
        hashed = keyed_hash(ENVIRONMENT["ADDRESS_KEY"].encode(), str(ACCOUNT["email"]))
        insert = "INSERT INTO mail_service.accounts (id, email, address_hash) VALUES (%s, 'x', %s)"
        blocker.execute(insert, (NOBODY, hashed))
        sent = request(key, body, f"Content-Length: {len(body)}")
        asking = Thread(target=lambda: answers.append(server.raw(sent)))
        asking.start()
        while not waits(watcher):
            pass
        server.signal(signal.SIGTERM)
        while "Handling signal: term" not in server.text():
            pass
        server.signal(signal.SIGTERM)
        blocker.rollback()
    asking.join()
    assert answers[0].startswith(b"HTTP/1.1 201")
    assert server.ended(25) == 0
    with psycopg.connect(own_database_url) as connection:
        assert connection.execute("SELECT count(*) FROM mail_service.accounts").fetchone() == (1,)


def waits(watcher: psycopg.Connection[Any]) -> bool:
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event_type = 'Lock'"
    )
    (count,) = watcher.execute(query).fetchone() or (0,)
    return count > 0
