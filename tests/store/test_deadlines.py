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
        later, its_peer = socket.socketpair()
        with other, peer, later, its_peer, deadlines.watch(later):
            assert number in {other.fileno(), peer.fileno()}
            its_peer.settimeout(5)
            assert its_peer.recv(1) == b""  # cut, and so was the time of ours over
            other.sendall(b"x")
            peer.settimeout(5)
            assert peer.recv(1) == b"x"
    deadlines.stop()


class _ClosesWhenAsked:
    """A connection that ends between two looks at it, and whose number is taken at once."""

    def __init__(self, number: int) -> None:
        self.numbers = [number, -1]

    def fileno(self) -> int:
        return self.numbers.pop(0)


def test_a_connection_that_closes_while_it_is_cut_takes_nobody_with_it() -> None:
    other, peer = socket.socketpair()
    ours, theirs = socket.socketpair()
    stale = Deadlines(0.0)
    with (
        other,
        peer,
        ours,
        theirs,
        stale.watch(_ClosesWhenAsked(other.fileno())),
        stale.watch(ours),
    ):
        theirs.settimeout(5)
        assert theirs.recv(1) == b""  # the one after it was cut
        other.sendall(b"x")
        peer.settimeout(5)
        assert peer.recv(1) == b"x"
    stale.stop()


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
