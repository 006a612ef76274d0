"""Deadlines: a connection that does not get on is cut, one that ends in time is left alone."""

import socket
import time

import pytest

from mail_service.store.deadlines import LOOK_SECONDS, Deadlines


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines(0.3)


def test_a_peer_that_drips_is_cut_although_each_read_gets_something(deadlines: Deadlines) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5)
        begun = time.monotonic()
        with deadlines.watch(ours):
            while True:
                try:
                    theirs.sendall(b"x")
                except BrokenPipeError:
                    break
                if not ours.recv(1):
                    break
        assert 0.3 <= time.monotonic() - begun < 5
    deadlines.stop()


def test_a_connection_that_is_done_in_time_stays_whole(deadlines: Deadlines) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with deadlines.watch(ours):
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"
        stale = Deadlines(0.0)
        with stale.watch(theirs):
            assert theirs.recv(1) == b""  # the other end's watcher cuts this one alone, at once
        stale.stop()
    deadlines.stop()


def test_a_descriptor_that_became_somebody_elses_is_not_cut(deadlines: Deadlines) -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    with theirs, deadlines.watch(ours):
        ours.close()
        other, peer = socket.socketpair()
        with other, peer:
            assert number in {other.fileno(), peer.fileno()}
            theirs.settimeout(5)
            assert theirs.recv(1) == b""  # ours was cut
            other.sendall(b"x")
            assert peer.recv(1) == b"x"
    deadlines.stop()


def test_the_worker_of_gunicorn_has_one_for_each_request() -> None:
    from api.serving import REQUEST_SECONDS, Worker

    assert REQUEST_SECONDS <= 15
    assert Worker.handle.__qualname__ == "Worker.handle"


def test_after_a_rest_a_connection_that_stalls_is_cut_as_before(deadlines: Deadlines) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with deadlines.watch(ours):
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"
        ours.settimeout(3 * LOOK_SECONDS)
        with pytest.raises(TimeoutError):
            ours.recv(1)  # meanwhile the watcher has found nothing in use
        ours.settimeout(5)
        with deadlines.watch(ours):
            assert ours.recv(1) == b""
    deadlines.stop()
