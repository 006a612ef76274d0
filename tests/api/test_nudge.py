"""The nudge: heard after a commit, at most one per 50 ms, and silent when it can't be sent."""

import time
from collections.abc import Callable
from threading import Event

import psycopg

from api.nudge import APART_SECONDS, Nudge
from mail_service.runtime import Runtime
from mail_service.store.session import CHANNEL
from mail_service.workflows import submit
from tests.api.conftest import ACCOUNT, Api


def heard(listener: psycopg.Connection, seconds: float) -> int:
    return sum(1 for _ in listener.notifies(timeout=seconds))


def listening(url: str) -> psycopg.Connection:
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(f"LISTEN {CHANNEL}")  # pyright: ignore
    return connection


def test_a_committed_request_is_heard_by_whoever_listens(rt: Runtime, api: Api, database_url: str):
    nudge = Nudge(lambda: submit.wake(rt))
    app = Api(rt, api.key, nudge)
    with listening(database_url) as listener:
        assert app.post("/v1/accounts", ACCOUNT).status_code == 201
        assert next(iter(listener.notifies(timeout=10, stop_after=1))).payload == ""
    nudge.stop()


def test_a_thousand_nudges_in_a_moment_are_few_and_the_last_is_never_lost(
    rt: Runtime, database_url: str
):
    nudge = Nudge(lambda: submit.wake(rt))
    with listening(database_url) as listener:
        begun = time.monotonic()
        for _ in range(1000):
            nudge()
        called_for = time.monotonic() - begun
        nudge.stop(10)
        count = heard(listener, 0.2)
    assert 1 <= count <= 2 + called_for / APART_SECONDS


def test_wakes_keep_their_distance_and_a_call_during_one_is_answered_by_the_next():
    times: list[float] = []
    inside, go_on, again = Event(), Event(), Event()

    def wake() -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            inside.set()
            go_on.wait(10)
        else:
            again.set()

    nudge = Nudge(wake)
    nudge()
    assert inside.wait(10)
    nudge()
    nudge()
    go_on.set()
    assert again.wait(10)
    nudge.stop()
    assert len(times) == 2
    assert times[1] - times[0] >= APART_SECONDS


def test_the_first_call_after_a_rest_wakes_again():
    woken = Event()
    nudge = Nudge(woken.set)
    for _ in range(3):
        nudge()
        assert woken.wait(10)
        woken.clear()
        assert not woken.wait(2 * APART_SECONDS)  # nobody asked: its thread sleeps
    nudge.stop()


def test_a_nudge_without_a_database_is_forgotten_and_the_next_one_is_tried(
    api_of: Callable[[Runtime], Api], rt: Runtime, gone: Runtime
):
    tried, failed = [], Event()

    def wake() -> None:
        tried.append(None)
        try:
            submit.wake(gone)
        finally:
            failed.set()

    nudge = Nudge(wake)
    api = api_of(rt)
    api.nudge = nudge
    for name in ("ada", "eve"):
        failed.clear()
        assert api.post("/v1/accounts", {"email": f"{name}@example.com"}).status_code == 201
        assert failed.wait(10)
    nudge.stop()
    assert len(tried) == 2


def test_stopping_sends_what_was_asked_for_and_ends_the_thread():
    sent: list[None] = []
    nudge = Nudge(lambda: sent.append(None))
    nudge.stop()
    nudge = Nudge(lambda: sent.append(None))
    nudge()
    nudge.stop(10)
    assert sent == [None]
