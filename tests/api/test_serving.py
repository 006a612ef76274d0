"""Our worker under gunicorn: who serves the next request of a connection, and who takes a new one."""

import socket
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest
from gunicorn.app.base import BaseApplication
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import TConn

from api.serving import REQUEST_SECONDS, YIELD_SECONDS, Worker
from mail_service.store.deadlines import Connection, Deadlines

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
PLACE = ("127.0.0.1", 80)


class Served:
    """A worker, a client's end of one connection, and how often the application was called."""

    def __init__(self) -> None:
        config = Config()
        config.set("threads", 4)
        app = object.__new__(BaseApplication)
        self.worker = Worker(1, 1, [], app, 30, config, Logger(config))
        self.worker.wsgi = self.answer
        self.worker.nr_conns = 1
        ours, self.client = socket.socketpair()
        self.conn = TConn(config, ours, PLACE, PLACE)
        self.calls = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def answer(self, environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
        del environ
        self.calls += 1
        self.meanwhile()
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def ask(self, times: int) -> None:
        """Send this many requests, each before the one before it is answered."""

        def next_one() -> None:
            if self.calls < times:
                self.client.sendall(REQUEST)

        self.meanwhile = next_one
        self.client.sendall(REQUEST)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    with made.conn.sock, made.client:
        yield made
    made.worker.deadlines.stop()
    made.worker.tmp.close()


def test_the_thread_that_answered_takes_the_requests_that_follow_at_once(served: Served) -> None:
    served.ask(5)
    assert served.worker.handle(served.conn) is True
    assert served.calls == 5
    assert served.client.recv(65536).count(b"200 OK") == 5


def test_requests_that_came_in_one_piece_are_taken_one_after_the_other(served: Served) -> None:
    served.client.sendall(REQUEST * 3)
    assert served.worker.handle(served.conn) is True
    assert served.calls == 3


def test_a_connection_that_falls_silent_goes_back_to_the_poller(served: Served) -> None:
    served.ask(1)
    assert served.worker.handle(served.conn) is True
    assert served.calls == 1


def test_a_client_that_leaves_after_its_answer_ends_the_connection(served: Served) -> None:
    served.ask(1)
    served.client.shutdown(socket.SHUT_WR)
    assert served.worker.handle(served.conn) is False
    assert served.calls == 1


def closes_at_once(served: Served) -> bool:
    """Whether gunicorn's one thread for all connections has nothing to wait for at this one's end."""
    served.conn.sock.setblocking(False)
    try:
        return served.conn.sock.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_thread_waits_for_a_client_that_does_not_close_after_its_last_answer(
    served: Served,
) -> None:
    served.client.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert served.worker.handle(served.conn) is False
    assert closes_at_once(served)
    assert served.client.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_request_that_never_comes_whole_is_waited_for_by_its_thread_alone(served: Served) -> None:
    served.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50_000))
    served.client.sendall(b"GET / HT")
    assert served.worker.handle(served.conn) is False
    assert closes_at_once(served)


def test_no_thread_stays_while_there_are_fewer_threads_than_connections(served: Served) -> None:
    served.worker.nr_conns = 5
    served.ask(2)
    assert served.worker.handle(served.conn) is True
    assert served.calls == 1


def test_a_worker_that_stops_answers_and_takes_nothing_more(served: Served) -> None:
    def stop() -> None:
        served.client.sendall(REQUEST)
        served.worker.alive = False

    served.client.sendall(REQUEST)
    served.meanwhile = stop
    served.worker.handle(served.conn)
    assert served.calls == 1


class Counted(Deadlines):
    """Deadlines, and which connection each was for."""

    def __init__(self) -> None:
        super().__init__(REQUEST_SECONDS)
        self.watched: list[object] = []

    @contextmanager
    def watch(self, connection: Connection) -> Generator[None]:
        self.watched.append(connection)
        with super().watch(connection):
            yield


def test_each_request_of_a_connection_has_a_deadline_of_its_own(served: Served) -> None:
    counted = served.worker.deadlines = Counted()
    served.ask(3)
    assert served.worker.handle(served.conn) is True
    counted.stop()
    assert counted.watched == [served.conn.sock] * 3
    assert REQUEST_SECONDS <= 15  # SNS waits no longer


def test_a_worker_leaves_a_new_connection_to_its_siblings_first(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        served.worker.nr_conns = 5
        begun = monotonic()
        served.worker.accept(listener)  # taken by a sibling meanwhile: there is none
        assert monotonic() - begun >= 5 * YIELD_SECONDS
        assert served.worker.nr_conns == 5
