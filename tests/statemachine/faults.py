"""Faults between us and Postgres, and a clock that moves for both: what a schedule may arm."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from mail_service.errors import CommitUnknown
from mail_service.store import database
from mail_service.store.database import Transactions
from mail_service.workflows import dispatch, journal
from tests.statemachine.auditor import require

HONEST_PROVIDER_NEVER = {
    "accepted_after_refusal",
    "two_message_ids_for_one_call",
    "message_id_of_another_call",
    "template_failed",
    "event_unparseable",
}
"""Alarms that can't come while the provider keeps its word."""

NEVER_LOGGED = ("@", "name-canary")
"""Marks of addresses and of what is written to people."""


class Commits:
    """Loses the answer to a commit to come: ``before`` it took place, or ``after``."""

    def __init__(self) -> None:
        self._left = 0
        self._after = False
        self._real = database._commit  # pyright: ignore

    def lose(self, nth: int, *, after: bool) -> None:
        """Lose the nth commit from now."""
        self._left, self._after = nth, after

    def heal(self) -> None:
        """Lose none."""
        self._left = 0

    def commit(self, connection: psycopg.Connection[Any]) -> None:
        """Stand in for the product's commit."""
        self._left -= 1
        if self._left != 0:
            self._real(connection)
            return
        if self._after:
            self._real(connection)
        else:
            connection.rollback()
        connection.close()
        raise CommitUnknown("the connection went away in answer to a commit")


SLOWER = 20
"""How much slower time runs by itself, here and in the database, so that a schedule moves it alone: a
slow machine must not turn a claim into an old one."""


class Clock:
    """Monotonic time that a schedule moves along with the database's."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """Give the time, as the process sees it."""
        return time.monotonic() / SLOWER + self.ahead


class Log:
    """Takes the product's log lines and keeps the alarms."""

    def __init__(self) -> None:
        self.alarms: list[str] = []

    def info(self, event: str, **what: Any) -> None:
        """Look whether it tells what it must not (S17)."""
        told = repr((event, what))
        require("S17", any(secret in told for secret in NEVER_LOGGED), f"logged {told}")

    def error(self, event: str, **what: Any) -> None:
        """Keep the alarm's name."""
        self.info(event, **what)
        self.alarms.append(what["alarm"])


@contextmanager
def installed(commits: Commits, clock: Clock, log: Log) -> Generator[None]:
    """Put them in their places, and take them out again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_commit", commits.commit)
        # What commits itself is lost in the same ways.
        patch.setattr(Transactions, "transact_one", Transactions.transact)
        patch.setattr(dispatch, "time", clock)
        patch.setattr(journal, "_log", log)
        yield
