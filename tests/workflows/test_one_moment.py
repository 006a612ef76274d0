"""What is shown of an email is what was true at one moment, though it is read in parts."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mail_service.domain.states import AttemptState, EmailState
from mail_service.runtime import Runtime
from mail_service.store.narrowing import Filter
from mail_service.store.pool import Database
from mail_service.store.views import EmailView
from mail_service.workflows import observe
from tests.steps import look, send_all, sign_up


class Interrupted(Database):
    """Something happens once, right after the first statement that reads an email's row."""

    happens: Callable[[], object] | None = None

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection[Any]]:
        outer = self

        class Cursor(psycopg.Cursor[Any]):
            def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
                done = super().execute(query, params, **options)
                happens, looks = outer.happens, "FROM mail_service.email_outbox" in str(query)
                if happens is not None and looks:
                    outer.happens = None
                    happens()
                return done

        with super().connected() as connection:
            before, connection.cursor_factory = connection.cursor_factory, Cursor
            try:
                yield connection
            finally:
                connection.cursor_factory = before


@pytest.fixture
def reader(rt: Runtime, database_url: str) -> Iterator[tuple[Runtime, Interrupted]]:
    """A runtime that reads, and what may interrupt it."""
    db = Interrupted(database_url, name="reader", size=2)
    db.open()
    yield replace(rt, db=db), db
    db.close()


def one(rt: Runtime, email: EmailView) -> EmailView:
    return look(rt, email)


def listed(rt: Runtime, email: EmailView) -> EmailView:
    (found,) = observe.list_emails(rt, Filter(), after=None, limit=5).items
    return found


@pytest.mark.parametrize("read", [one, listed])
def test_an_email_that_is_sent_while_it_is_read_is_shown_before_or_after_and_never_between(
    read: Callable[[Runtime, EmailView], EmailView],
    rt: Runtime,
    reader: tuple[Runtime, Interrupted],
) -> None:
    email = sign_up(rt)
    reading, interrupted = reader
    interrupted.happens = lambda: send_all(rt)
    before = read(reading, email)
    assert interrupted.happens is None
    assert (before.email.state, list(before.attempts)) == (EmailState.PENDING, [])
    after = read(reading, email)
    assert after.email.state is EmailState.SUBMITTED
    assert [attempt.state for attempt in after.attempts] == [AttemptState.ACCEPTED]
